r"""Answers in `\boxed{}` that are compared as text."""

import re
from typing import Any

from lightrl import Prompt
from lightrl_math.boxes import last_box
from lightrl_math.verdict import Verdict

SAME = {
    r"\dfrac": r"\frac", r"\tfrac": r"\frac", r"\left": "", r"\right": "", r"\!": "", r"\,": "", r"\;": "", r"\ ": "",
    r"^{\circ}": "", r"^\circ": "", r"\$": "", "$": "", r"\%": "", "%": "",
}  # fmt: skip
"""Ways of writing that mean the same in an answer, and what they become."""
WORDS = re.compile(r"\\(?:text|textbf|mathrm|mbox)\s*\{([^{}]*)\}")


class Boxed(Verdict):
    r"""Whether the last `\boxed{}` holds the answer, compared as text.

    Spaces, `\left` and `\right`, the size of fractions, degree, dollar and percent signs, `\text{}` around words and a closing period do
    not count. Cheap and strict: `1/2` is not `\frac{1}{2}` here. `MathAnswer` compares what expressions mean.

    Source: Hendrycks et al. 2021 (MATH), arXiv:2103.03874, whose answers stand in boxes.
    """

    runs = "inline"

    def score(self, prompt: Prompt, completion: str, *, answer: Any) -> float:
        """`correct`, `wrong`, or `unparsable` without a closed box that holds something."""
        if answer is None or isinstance(answer, bool):
            raise ValueError(f"prompt {prompt.id!r} has no answer to compare with, got {answer!r}")
        expected = str(answer)
        boxed = last_box(expected)
        said = boxed_answer(completion)
        return self.verdict(None if said is None else said == plain(expected if boxed is None else boxed))

    def answer_in(self, completion: str) -> str | None:
        """The content of the last box, without what does not count; None without a closed box that holds something."""
        return boxed_answer(completion)


def boxed_answer(completion: str) -> str | None:
    """The content of the last closed box of a completion, without what does not count; None if that is nothing."""
    found = last_box(completion)
    closed = found is not None and not completion.endswith(found)
    return (plain(found) or None) if closed and found is not None else None


def plain(answer: str) -> str:
    """An answer without what does not count."""
    for written, same in SAME.items():
        answer = answer.replace(written, same)
    answer = WORDS.sub(r"\1", answer)
    return "".join(answer.split()).rstrip(".")
