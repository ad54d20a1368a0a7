"""Numbers as answers, as in GSM8K: what number does a completion end with?"""

import re
from fractions import Fraction
from typing import Any

from lightrl import Prompt
from lightrl_math.boxes import last_box
from lightrl_math.verdict import Verdict

_SIGN = r"(?:(?<![\w.)])[-+\u2212])?"
_DIGITS = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+"
NUMBER = re.compile(rf"(?P<before>{_SIGN})[$€£]?(?P<after>{_SIGN})(?P<digits>{_DIGITS})(?:\s?/\s?(?P<below>\d+(?:\.\d+)?))?")
"""A sign, a currency sign, digits with or without thousands separators and decimals, and a denominator."""
FRACTION = re.compile(r"\\[dt]?frac\{([^{}]+)\}\{([^{}]+)\}")
ANSWER_IS = re.compile(r"\banswer\b\s*(?:is|:|=)\s*:?", re.IGNORECASE)
LONGEST = 300
"""Digits of a number that is still read; a degenerate completion may repeat digits without end."""
SENTENCE_END = re.compile(r"[.!?](?:\s|$)|\n")


class FinalNumber(Verdict):
    r"""Whether the completion's final number is that of the answer.

    The final number is the one after the last `####`; else the one in the last `\boxed{}`; else the one after the last
    "answer is" or "answer:", up to the end of the sentence; else the last number of the text. Of an equation it is what
    follows the last equals sign. Numbers are compared exactly: `1,234.50` is `1234.5`, `$18` and `18%` are `18`, `3/4` is `0.75`.

    Source: Cobbe et al. 2021 (GSM8K), arXiv:2110.14168, whose answers end in `#### 72`.
    """

    runs = "inline"

    def score(self, prompt: Prompt, completion: str, *, answer: Any) -> float:
        expected = reference_number(answer)
        if expected is None:
            raise ValueError(f"the answer of prompt {prompt.id!r} is no number: {answer!r}")
        found = final_number(completion)
        return self.verdict(None if found is None else found == expected)

    def answer_in(self, completion: str) -> str | None:
        """The final number, as a fraction in lowest terms; None without one."""
        found = final_number(completion)
        return None if found is None else str(found)


def reference_number(answer: Any) -> Fraction | None:
    """The number of an answer column: a number as it is, or the final number of a text; None if there is none."""
    if isinstance(answer, bool):
        return None
    if isinstance(answer, (int, float)):
        return Fraction(str(answer)) if answer == answer and abs(answer) != float("inf") else None
    return final_number(answer) if isinstance(answer, str) else None


def final_number(text: str) -> Fraction | None:
    """The number that a text ends with, by the rules of `FinalNumber`; None if there is none."""
    claim = _claim(text)
    if claim is None:
        return _last(_numbers(text))
    numbers = _numbers(claim.rpartition("=")[2])
    return numbers[0] if numbers else None


def _claim(text: str) -> str | None:
    if "####" in text:
        return text.rpartition("####")[2]
    boxed = last_box(text)
    if boxed is not None:
        return boxed
    said = _last(list(ANSWER_IS.finditer(text)))
    if said is None:
        return None
    rest = text[said.end() :].lstrip()
    return SENTENCE_END.split(rest, maxsplit=1)[0]


def _numbers(text: str) -> list[Fraction]:
    plain = FRACTION.sub(r"\1/\2", text).replace(r"\$", "$").replace("{,}", ",").replace(r"\!", "").replace("**", "")
    return [number for number in map(_value, NUMBER.finditer(plain)) if number is not None]


def _value(match: re.Match[str]) -> Fraction | None:
    if len(match.group()) > LONGEST:
        return None
    number = Fraction(match["digits"].replace(",", ""))
    below = Fraction(match["below"] or 1)
    if below == 0:
        return None
    negative = any(sign in match["before"] + match["after"] for sign in "-\u2212")
    return (-number if negative else number) / below


def _last(found: list[Any]) -> Any:
    return found[-1] if found else None
