"""Answers that are mathematical expressions, compared by what they mean."""

import functools
import logging
import re
from typing import Any

from lightrl import Prompt, without_thoughts
from lightrl_math.boxed import Verdict, boxed_answer
from lightrl_math.claims import claim, offered
from lightrl_math.number import final_number, reference_number
from lightrl_math.numerals import numerals, plain
from lightrl_math.written import bare, contradicts, rewritten, typed

DELIMITED = re.compile(r"(?<!\\)\$|\\boxed|\\\(|\\\[")
"""Marks of LaTeX in a text; an escaped dollar is money."""
BOXES = re.compile(r"\\boxed\s*\{[^{}]*\}?")
MATHEMATICS = re.compile(r"[\^*/+{}\[\]\\=,;<>\u221a]|sqrt|\bpi\b|\d-|%")
"""Signs of an expression that is more than a number."""
WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}")
NUMERAL = re.compile(r"-?\d+(\.\d+)?")
GOES_ON = re.compile(r"\s?[-+*/^|\\\u00b7\u00d7]")
"""After a number that is a part of an expression."""
SHORT = 200
"""Characters of a completion that may be an expression and nothing else."""


class MathAnswer(Verdict):
    r"""Whether the completion's answer means the same as the reference, by math-verify.

    Fractions, roots, intervals, tuples, sets, matrices, equations and units are read from LaTeX and plain text and compared
    symbolically: `\frac{1}{2}` is `0.5` and `50\%`, `336^\circ` is `336`, `x = 5` is `5`, `(x-1)(x+1)` is `x^2 - 1`. Every `\boxed{}` of a
    completion outside of its thoughts counts, so of several different ones none is the answer. It runs in worker processes, which are
    killed when a comparison takes too long: the library's own time-outs do not work outside a main thread and are switched off.

    Source: https://github.com/huggingface/Math-Verify.
    """

    runs = "process"

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Load the library where the reward arrives, once, before workers are forked there."""
        _library()
        self.__dict__.update(state)

    def score(self, prompt: Prompt, completion: str, *, answer: Any) -> float:
        """`correct`, `wrong`, or `unparsable`; the answer is a number, LaTeX with or without `$`, or GSM8K's solution ending in `#### 72`.

        Raises:
            ValueError: the reference cannot be read.
        """
        expected = parsed_reference(str(answer)) if answer is not None and not isinstance(answer, bool) else ()
        if not expected:
            raise ValueError(f"the answer of prompt {prompt.id!r} cannot be read as mathematics: {answer!r}")
        said = typed(without_thoughts(completion))
        number = _number(said, answer)
        if number is not None:
            return self.verdict(number)
        found = parsed(rewritten(said))
        if not found or _hedged(said, found, answer):
            return self.verdict(None)
        return self.verdict(same(expected, found) and not contradicts(claimed(said), claimed(str(answer))))

    def answer_in(self, completion: str) -> str | None:
        """The content of the last box, else the final number; compared as text, since reading mathematics may never end."""
        boxed = boxed_answer(completion)
        if boxed is not None:
            return boxed
        found = final_number(without_thoughts(completion))
        return None if found is None else str(found)


def claimed(text: str) -> str:
    """The part of a text that is its answer, its last line where nothing says which."""
    place = claim(text)
    return bare(place.said if place else text.strip().rpartition("\n")[2]).strip("$").strip()


def _number(said: str, answer: Any) -> bool | None:
    """Whether the final number is the reference, where both are plain numbers; None: one of them is not."""
    expected = None if "%" in f"{answer}{claimed(said)}" else reference_number(answer)
    if expected is None or len(set(BOXES.findall(said))) > 1:
        return None
    found = final_number(said)
    return None if found is None or MATHEMATICS.search(plain(claimed(said))) else found == expected


def _hedged(said: str, found: tuple[Any, ...], answer: Any) -> bool:
    """Whether a text offers two answers, or math-verify found a number in what is none, such as `at least 5`."""
    place, words = claim(said), plain(claimed(said))
    numbers, delimited = numerals(words), bool(DELIMITED.search(said))
    offers = any(offered("", words[number.end :]) for number in numbers) and reference_number(answer) is not None
    if offers or (place is not None and place.rivalled):
        return True
    if final_number(said) is not None:
        return False
    if not MATHEMATICS.search(words):
        return len(numbers) > delimited
    # beyond delimiters it reads the number of `sqrt 5` and `5 + 6i` alone
    alone = [str(number.value) for number in numbers if not GOES_ON.match(words, number.end)]
    return not delimited and NUMERAL.fullmatch(str(found[0])) is not None and str(found[0]) not in alone


def same(expected: tuple[Any, ...], found: tuple[Any, ...]) -> bool:
    """Whether two parsed answers mean the same."""
    return bool(_library().verify(list(expected), list(found), timeout_seconds=None))


def parsed(text: str) -> tuple[Any, ...]:
    """The expressions that math-verify finds in a text; a text that is nothing but an expression needs no delimiters."""
    last = claimed(text)
    if "^" in last and not DELIMITED.search(text) and not WORD.search(last):
        return _parse(f"${last}$")
    found = _parse(text)
    return found if found or not _is_bare(text.strip()) else _parse(f"${text.strip()}$")


def _is_bare(text: str) -> bool:
    """Whether it looks like an expression by itself: short, with letters or digits, and without words."""
    if len(text) > SHORT or "\n" in text or DELIMITED.search(text) or WORD.search(text):
        return False
    return any(character.isalnum() for character in text)


# the completions of a group share their reference
@functools.lru_cache(maxsize=4096)
def parsed_reference(answer: str) -> tuple[Any, ...]:
    """The reference answer as math-verify reads it; bare expressions, tuples above all, are read as LaTeX."""
    answer = rewritten(typed(answer.rpartition("####")[2].strip()))
    return _parse(answer if DELIMITED.search(answer) else f"${answer}$") or _parse(answer)


def _parse(text: str) -> tuple[Any, ...]:
    return tuple(_library().parse(text, parsing_timeout=None))


@functools.cache
def _library() -> Any:
    import math_verify

    for name in ("parser", "grader"):
        # time-outs are the worker pool's, so the advice to see to them is followed
        logging.getLogger(f"math_verify.{name}").addFilter(lambda record: not str(record.msg).startswith("Timeout is disabled"))
    return math_verify
