"""Answers that are one of several letters."""

import itertools
import re
from typing import Any

from lightrl import Prompt, without_thoughts
from lightrl_math.boxed import Verdict
from lightrl_math.claims import boxed_claim, offered

WORD = re.compile(r"[^\W_]+")
LETTER = re.compile(r"[\s*_\"'$(]*[A-Za-z](?![A-Za-z])")
MARKS = re.compile(r"[\s*_\"'$]*")
NAMED = re.compile(r"(?:option|choice)\s+", re.IGNORECASE)


class MultipleChoice(Verdict):
    r"""Whether the completion chooses the right letter.

    The choice is the letter in the last `\boxed{}`; else the one after the last "answer is" or "answer:"; else the letter that stands
    alone on the last line, with or without parentheses, a period or the text of the option after it. Naming two letters there ("A or
    B") is no choice. Thoughts are left out.
    """

    runs = "inline"

    def __init__(
        self, options: str = "ABCDEFGHIJ", correct: float = 1.0, wrong: float = 0.0, unparsable: float = 0.0, **kwargs: Any
    ) -> None:
        """
        Args:
            options: the letters, in order.
            correct: the score of the right letter.
            wrong: the score of another letter.
            unparsable: the score of a completion without a choice.
            **kwargs: weight and the other arguments of every reward.

        Raises:
            ValueError: there are fewer than two letters, or one occurs twice.
        """
        super().__init__(correct=correct, wrong=wrong, unparsable=unparsable, **kwargs)
        if len(options) < 2 or len(set(options.upper())) != len(options) or not options.isalpha():
            raise ValueError(f"MultipleChoice needs two or more different letters as options, got {options!r}")
        self.options = options.upper()

    def check_prompt(self, prompt: Prompt) -> None:
        """Refuse an answer that is none of the options."""
        self._expected(prompt, prompt.answer)

    def score(self, prompt: Prompt, completion: str, *, answer: Any) -> float:
        """`correct`, `wrong`, or `unparsable` without a choice; the answer is a letter, also as `(C)`, or the number of an option, from 0.

        Raises:
            ValueError: the answer is none of the options.
        """
        expected = self._expected(prompt, answer)
        found = chosen(without_thoughts(completion), self.options)
        return self.verdict(None if found is None else found == expected)

    def answer_in(self, completion: str) -> str | None:
        """The letter it chooses; None without one."""
        return chosen(without_thoughts(completion), self.options)

    def _expected(self, prompt: Prompt, answer: Any) -> str:
        if isinstance(answer, int) and not isinstance(answer, bool) and 0 <= answer < len(self.options):
            return self.options[answer]
        letter = answer.strip().strip("().").upper() if isinstance(answer, str) else ""
        if len(letter) == 1 and letter in self.options:
            return letter
        raise ValueError(
            f"the answer of prompt {prompt.id!r} is {answer!r}, expected one of {', '.join(self.options)} or a number from 0 to "
            f"{len(self.options) - 1}"
        )


def chosen(text: str, options: str) -> str | None:
    """The letter that a text chooses, by the rules of `MultipleChoice`; None if it chooses none or several."""
    letter = rf"(?<![A-Za-z])[{options}](?![A-Za-z])"
    boxed = boxed_claim(text)
    if boxed is not None:
        found = re.findall(letter, re.sub(r"\\(?:text\w*|math\w+)", " ", boxed.said), re.IGNORECASE)
        return None if boxed.rivalled else _only(found)
    said = list(re.finditer(r"\banswer\b\s*(?:is|:|=)\s*:?", text, re.IGNORECASE))
    if said:
        behind = text[said[-1].end() :].lstrip()
        first = LETTER.match(behind)
        other = offered(text[: said[-1].start()], behind[first.end() :] if first else "")
        return None if other else _only(_leading(re.split(r"[.!?]\s|\n", behind, maxsplit=1)[0], options))
    lines = text.strip().splitlines()
    return _only(_leading(lines[-1], options)) if lines else None


def _leading(line: str, options: str) -> list[str]:
    """The letters that a line begins with: `C`, `(c)`, `**C.** Paris`, but neither `A dog` nor nothing of `A or B`."""
    words = [match.group().upper() for match in itertools.islice(WORD.finditer(line), 3)]
    letters = [word for word in words if word not in ("OR", "AND")][:2]
    if len(letters) == 2 and words[0] == letters[0] and all(len(word) == 1 and word in options for word in letters):
        return letters
    # a mark at a time, since two patterns of the same marks in a row try every way of sharing a run of them
    rest = _unmarked(line)
    named = NAMED.match(rest)
    rest = rest if named is None else _unmarked(rest[named.end() :])
    match = re.match(rf"\(([{options}])\)|([{options}])(?:[).:,*]|\s*$)", rest, re.IGNORECASE)
    return [match[1] or match[2]] if match else []


def _unmarked(line: str) -> str:
    """A line without the spaces, stars and quotes that it begins with."""
    match = MARKS.match(line)
    return line[match.end() :] if match else line


def _only(letters: list[str]) -> str | None:
    different = {letter.upper() for letter in letters}
    return different.pop() if len(different) == 1 else None
