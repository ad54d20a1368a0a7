"""Answers in boxes, compared as text, and the base of all rewards that compare an answer."""

import re
from typing import Any

from lightrl import Prompt, RowReward, without_thoughts
from lightrl_math.claims import boxed_claim, last_box
from lightrl_math.written import bare

SAME = {
    r"\dfrac": r"\frac", r"\tfrac": r"\frac", r"\left": "", r"\right": "", r"\!": "", r"\,": "", r"\;": "", r"\ ": "",
    r"^{\circ}": "", r"^\circ": "", r"\$": "", "$": "", r"\%": "", "%": "",
}  # fmt: skip
"""Ways of writing that mean the same in an answer, and what they become."""
WORDS = re.compile(r"\\(?:text|textbf|mathrm|mbox)\s*\{([^{}]*)\}")


class Verdict(RowReward):
    """Scores a completion as correct, wrong or unparsable; subclasses say which it is."""

    def __init__(self, correct: float = 1.0, wrong: float = 0.0, unparsable: float = 0.0, **kwargs: Any) -> None:
        """
        Args:
            correct: the score of the right answer.
            wrong: the score of another answer.
            unparsable: the score of a completion in which no answer is found.
            **kwargs: weight and the other arguments of every reward.
        """
        super().__init__(**kwargs)
        self.correct, self.wrong, self.unparsable = correct, wrong, unparsable

    def verdict(self, right: bool | None) -> float:
        """The score of an answer that is right or wrong, or None if there is none."""
        if right is None:
            return self.unparsable
        return self.correct if right else self.wrong


class Boxed(Verdict):
    r"""Whether the last `\boxed{}` holds the answer, compared as text.

    Spaces, `\left` and `\right`, the size of fractions, degree, dollar and percent signs, `\text{}` around words and a closing period do
    not count. Cheap and strict: `1/2` is not `\frac{1}{2}` here. `MathAnswer` compares what expressions mean.

    Source: Hendrycks et al. 2021 (MATH), arXiv:2103.03874, whose answers stand in boxes.
    """

    runs = "inline"

    def check_prompt(self, prompt: Prompt) -> None:
        """Refuse a prompt without an answer to compare with."""
        _expected(prompt, prompt.answer)

    def score(self, prompt: Prompt, completion: str, *, answer: Any) -> float:
        """`correct`, `wrong`, or `unparsable` without a closed box that holds something."""
        expected, said = _expected(prompt, answer), boxed_answer(completion)
        return self.verdict(None if said is None else said == expected)

    def answer_in(self, completion: str) -> str | None:
        """The content of the last box, without what does not count; None without a closed box that holds something."""
        return boxed_answer(completion)


def _expected(prompt: Prompt, answer: Any) -> str:
    boxed = last_box(str(answer))
    expected = plain(str(answer) if boxed is None else boxed)
    if answer is None or isinstance(answer, bool) or not expected:
        raise ValueError(f"prompt {prompt.id!r} has no answer to compare with, got {str(answer)[-80:]!r}")
    return expected


def boxed_answer(completion: str) -> str | None:
    """The content of the last closed box outside of thoughts, without what does not count; None: nothing, or not the only answer."""
    place = boxed_claim(without_thoughts(completion))
    return None if place is None or place.rivalled else plain(place.said) or None


def plain(answer: str) -> str:
    """An answer without what does not count."""
    for written, same in SAME.items():
        answer = answer.replace(written, same)
    answer = WORDS.sub(r"\1", answer)
    return bare("".join(answer.split()))
