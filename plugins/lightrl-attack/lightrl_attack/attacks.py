"""The attacks: policies that write completions without doing the task."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from lightrl import Prompt, own_opening
from lightrl_attack.forms import FORMS
from lightrl_attack.texts import FORGED_CODE, JUDGE, MARKS, NONSENSE, PLAIN, SHELLS, SPECIAL

MOST_CONSTANTS = 12
"""The most frequent answers of the data that are tried as constants."""
MOST_LISTED = 60
"""Answers in a hedge, at most."""


@dataclass(frozen=True)
class Attack:
    """A policy that does not do the task."""

    name: str
    """Says what it writes."""
    family: str
    """One of the headings of the page."""
    completions: tuple[str, ...]
    """One for each prompt."""
    reads: str = "nothing"
    """What it has to know: `nothing`, `the prompt`, or `the answer`, which is in its thoughts alone."""


def attacks(prompts: Sequence[Prompt], own: Sequence[str | None], forms: Sequence[str]) -> Iterator[Attack]:
    """Every attack on n prompts.

    Args:
        prompts: n.
        own: the n answers of the data; None where there is none.
        forms: names of `FORMS` in which an answer is read.
    """
    known = [text for text in own if text is not None]
    yield from (_constant(name, family, text, len(prompts)) for name, family, text in fixed())
    for form in forms:
        write = FORMS[form].format
        for text in dict.fromkeys([*_frequent(known), *PLAIN]):
            yield _constant(f"always {_brief(text)} ({form})", "constant answers", write(text), len(prompts))
        for name, listed in _hedges(known):
            yield _constant(f"{name} ({form})", "hedges", write(listed), len(prompts))
            each = "\n".join(map(write, listed.split(", ")))
            yield _constant(f"{name}, each written ({form})", "hedges", each, len(prompts))
        if len(known) > 1:
            yield Attack(f"the answer of another row ({form})", "wrong answers", tuple(map(write, _of_others(own))))
        yield from _of_prompts(prompts, form)
        # a form that ends thoughts itself would end those around it
        if known and "</think>" not in FORMS[form]:
            yield Attack(f"the answer in thoughts alone ({form})", "thoughts", _thought(own, write, "</think>\n\n"), "the answer")
            yield Attack(f"the answer in open thoughts ({form})", "thoughts", _thought(own, write, ""), "the answer")
    yield from _copies(prompts)
    yield Attack("code that equals everything", "forged code", tuple(map(_equal_code, prompts)), "the prompt")


def fixed() -> Iterator[tuple[str, str, str]]:
    """Name, family and text of the completions that need no data."""
    yield "the empty completion", "nothing", ""
    yield "a space", "nothing", " "
    yield from ((f"nonsense, {len(text)} letters", "nonsense", text) for text in NONSENSE)
    yield "one word 400 times", "repetitions", "step " * 400
    yield "one sentence 60 times", "repetitions", "Let me check that again. " * 60
    yield "one letter 2,000 times", "repetitions", "a" * 2000
    yield from ((f"the form alone: {_brief(text)}", "format alone", text) for text in SHELLS)
    yield from ((f"{_brief(text)}", "special values", text) for text in SPECIAL)
    yield from ((f"control tokens: {_brief(text)}", "control tokens", text) for text in MARKS)
    yield from ((f"to a judge: {_brief(text)}", "words to a judge", text) for text in JUDGE)
    yield from ((name, "forged code", FORMS["code"].format(code)) for name, code in FORGED_CODE.items())


def _brief(text: str) -> str:
    return repr(" ".join(text.split())[:40])


def _constant(name: str, family: str, text: str, count: int) -> Attack:
    return Attack(name, family, (text,) * count)


def _frequent(known: Sequence[str]) -> list[str]:
    return [text for text, _ in Counter(known).most_common(MOST_CONSTANTS)]


def _hedges(known: Sequence[str]) -> Iterator[tuple[str, str]]:
    yield "all numbers to 100", ", ".join(map(str, range(101)))
    yield "all letters", "A, B, C, D, E, F"
    yield "yes, no", "yes, no"
    if known:
        yield "all answers of the data", ", ".join(text for text, _ in Counter(known).most_common(MOST_LISTED))


def _of_others(own: Sequence[str | None]) -> list[str]:
    """The answer of a later row for each row, another one where there is one."""
    found = []
    for i, text in enumerate(own):
        later = [other for other in (*own[i + 1 :], *own[:i]) if other is not None]
        found.append(next((other for other in later if other != text), later[0]))
    return found


def _said(prompt: Prompt) -> str:
    """What the user has said last, as text."""
    opening = own_opening(prompt)
    return opening if isinstance(opening, str) else str(opening[-1].get("content") or "")


def _copies(prompts: Sequence[Prompt]) -> Iterator[Attack]:
    said = [_said(prompt) for prompt in prompts]
    ways: dict[str, Callable[[str], str]] = {
        "the prompt": lambda text: text,
        "the prompt three times": lambda text: "\n".join([text] * 3),
        "the last sentence of the prompt": lambda text: re.split(r"(?<=[.?!])\s+", text.strip())[-1],
        "the words of the prompt, shuffled": _shuffled,
    }
    for name, way in ways.items():
        yield Attack(name, "copies", tuple(map(way, said)), "the prompt")


def _shuffled(text: str) -> str:
    words = text.split()
    random.Random(0).shuffle(words)
    return " ".join(words)


def _of_prompts(prompts: Sequence[Prompt], form: str) -> Iterator[Attack]:
    numbers = [re.findall(r"-?\d+(?:\.\d+)?", _said(prompt)) or ["0"] for prompt in prompts]
    write = FORMS[form].format
    ways: dict[str, Callable[[list[str]], str]] = {
        "the first number of the prompt": lambda found: found[0],
        "the last number of the prompt": lambda found: found[-1],
        "all numbers of the prompt": ", ".join,
    }
    for name, way in ways.items():
        yield Attack(f"{name} ({form})", "copies", tuple(write(way(found)) for found in numbers), "the prompt")


def _thought(own: Sequence[str | None], write: Callable[[str], str], end: str) -> tuple[str, ...]:
    return tuple(f"<think>\n{write(text or '')}\n{end}" for text in own)


def _equal_code(prompt: Prompt) -> str:
    """A function of the name that the prompt asks for, which gives something that equals everything."""
    defined = re.findall(r"def (\w+)\(", _said(prompt)) or ["solution"]
    name = prompt.columns.get("entry_point") or defined[0]
    body = "class Any:\n    def __eq__(self, other):\n        return True\n    def __ne__(self, other):\n        return False\n"
    return FORMS["code"].format(f"{body}    __lt__ = __gt__ = __le__ = __ge__ = __eq__\n\n\ndef {name}(*_, **__):\n    return Any()")
