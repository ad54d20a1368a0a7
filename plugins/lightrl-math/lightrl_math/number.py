"""Numbers as answers, as in GSM8K: what number does a completion end with?"""

import itertools
import re
from fractions import Fraction
from typing import Any

from lightrl import Prompt, without_thoughts
from lightrl_math.boxed import Verdict
from lightrl_math.claims import SENTENCE_END, claim, last_box, offered
from lightrl_math.numerals import numerals, plain, without
from lightrl_math.written import bare, unsolved

OR = re.compile(r"\bor\b", re.IGNORECASE)
JOINED = re.compile(r"[-+*|/(\u2010-\u2015\u2212\u00b7\u00d7]|\\times|\\cdot|to|vs\.?|versus|otherwise|else|", re.IGNORECASE)
"""What stands between two numbers of a range or of a sum that is not worked out; or nothing but space."""
LISTED = re.compile(r"[,;&]|(?:,[ \t]*)?and", re.IGNORECASE)
"""What stands between two numbers of a list."""
NO_WORD = re.compile(r"[^\w]*")
NOT_IN_A_BOX = re.compile(r"[^\w\s$%.():,!]|_|(?<![^\W\d_])[^\W\d_](?![^\W\d_])")
"""A sign of mathematics, or a letter by itself."""


class FinalNumber(Verdict):
    r"""Whether the completion's final number is that of the answer.

    The final number is the one on the line after the last `####`; else the one in the last `\boxed{}`; else the one after the last
    "answer is" or "answer:", up to the end of the sentence; else the last number of the text. Of an equation it is what
    follows the last equals sign. Numbers are compared exactly: `1,234.50` is `1234.5`, `$18` and `18%` are `18`, `3/4` is `0.75`.

    Thoughts are left out. Two numbers in one of these places are no answer (`5 or 6`, `\boxed{5, 6}`), nor is one with another beside it
    (`5. Or 6`, `5. No, 6`), or that is a part of something else (`5x`, `3\sqrt{2}`, `x > 5`), nor a box that is not closed.

    Source: Cobbe et al. 2021 (GSM8K), arXiv:2110.14168, whose answers end in `#### 72`.
    """

    runs = "inline"

    def check_prompt(self, prompt: Prompt) -> None:
        """Refuse an answer that is not one number."""
        _reference(prompt, prompt.answer)

    def score(self, prompt: Prompt, completion: str, *, answer: Any) -> float:
        """`correct`, `wrong`, or `unparsable` without a final number.

        Args:
            prompt: for messages.
            completion: what the policy said.
            answer: a number, a text that is one (`1,234`, `-3.5`, `$12`, `50%`, `3/4`), or one that has it after `####` or in a box.

        Raises:
            ValueError: the answer is not one number.
        """
        expected = _reference(prompt, answer)
        found = final_number(without_thoughts(completion))
        return self.verdict(None if found is None else found == expected)

    def answer_in(self, completion: str) -> str | None:
        """The final number, as a fraction in lowest terms; None without one."""
        found = final_number(without_thoughts(completion))
        return None if found is None else str(found)


def _reference(prompt: Prompt, answer: Any) -> Fraction:
    number = reference_number(answer)
    if number is None:
        raise ValueError(
            f"the answer of prompt {prompt.id!r} is not one number: {str(answer)[-80:]!r}. FinalNumber compares with 72, 1,234, -3.5, $12, "
            "50%, 3/4 or a text that ends in #### 72; for expressions there is MathAnswer"
        )
    return number


def reference_number(answer: Any) -> Fraction | None:
    """The number of an answer column: a number as it is, or a text that is one, after `####` or in a box if it has these; else None."""
    if isinstance(answer, int) and not isinstance(answer, bool):
        return Fraction(answer)
    if isinstance(answer, float):
        return Fraction(str(answer)) if answer == answer and abs(answer) != float("inf") else None
    if not isinstance(answer, str):
        return None
    written = answer.rpartition("####")[2]
    boxed = last_box(written)
    text = plain(written if boxed is None else bare(boxed))
    found = numerals(text)
    if len(found) != 1 or re.search(r"[^\s$%.]", without(found, text)):
        return None
    return found[0].value


def final_number(text: str) -> Fraction | None:
    """The number that a text ends with, by the rules of `FinalNumber`; None if there is none."""
    place = claim(text)
    if place is None:
        return _last(plain(text))
    if place.rivalled:
        return None
    return _boxed(plain(bare(place.said))) if place.boxed else _claimed(plain(place.said))


def _boxed(claim: str) -> Fraction | None:
    """The number of a box that holds nothing else but words."""
    found = numerals(claim)
    beside = without(found, claim).rpartition("=")[2]
    return None if NOT_IN_A_BOX.search(beside) or any(numeral.value is None for numeral in found) else _claimed(claim)


def _claimed(claim: str) -> Fraction | None:
    """The only number of a claim, or the only one after its last equals sign if what stands before is worked out there."""
    found = numerals(claim)
    if not found:
        return None
    equals = claim.rfind("=")
    results = [numeral for numeral in found if numeral.start > equals]
    gaps = [claim[one.end : other.start] for one, other in itertools.pairwise(found)]
    if len(results) != 1 or unsolved(claim) or any(OR.search(gap) or "," in gap or ";" in gap for gap in gaps):
        return None
    return results[0].value


def _last(text: str) -> Fraction | None:
    """The last number, unless it is one of two that are offered."""
    found = numerals(text)
    if len(found) > 1:
        gap = text[found[-2].end : found[-1].start]
        alone, between = NO_WORD.fullmatch(text, found[-1].end), gap.strip(" \t")
        either = (OR.search(gap) and not SENTENCE_END.search(gap)) or offered(text[: found[-1].start], "")
        if either or gap == ":" or JOINED.fullmatch(between) or (alone and LISTED.fullmatch(between)):
            return None
    return found[-1].value if found else None
