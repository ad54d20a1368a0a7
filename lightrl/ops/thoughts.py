"""Which part of a completion is its answer: what was only thought is none."""

from __future__ import annotations

import re

MARKS = {
    "<think>": "</think>", "<thinking>": "</thinking>", "<reasoning>": "</reasoning>", "<seed:think>": "</seed:think>",
    "<thought>": "</thought>", "[THINK]": "[/THINK]", "◁think▷": "◁/think▷",
    "<|START_THINKING|>": "<|END_THINKING|>", "<|inner_prefix|>": "<|inner_suffix|>", "<|channel>thought": "<channel|>",
    "<|channel|>analysis<|message|>": "<|channel|>final<|message|>",
}  # fmt: skip
"""What begins and ends thoughts: most families, two that system prompts ask for, Seed-OSS, EXAONE, Magistral, Kimi, Command, Apertus,
Gemma 4, gpt-oss."""
_ANALYSIS = re.compile(r"<\|channel\|>analysis<\|message\|>.*?(?=<\|(?:start|channel)\|>|\Z)", re.DOTALL)
"""gpt-oss thinks in messages of a channel, before each call and each answer; what follows one may be a call."""
_BEGIN, _END = (re.compile("|".join(map(re.escape, marks))) for marks in (MARKS, MARKS.values()))


def without_thoughts(completion: str) -> str:
    """A completion without its thoughts: neither what comes before the last mark that ends them nor what follows one left open.

    Every reward and every environment that looks for an answer looks for it here.

    Args:
        completion: as text, of one turn.
    """
    text = _ANALYSIS.sub("", completion)
    start, stop = answer_span(text)
    return text[start:stop]


def answer_span(completion: str) -> tuple[int, int]:
    """The first character of the answer, and one more than its last, in a completion whose thoughts are no messages of a channel."""
    start = max((found.end() for found in _END.finditer(completion)), default=0)
    opened = _BEGIN.search(completion, start)
    return start, len(completion) if opened is None else opened.start()


def mark_left_open(before: str, completion: str) -> str:
    """The mark of a thought that was opened at the end of what comes before a completion, and is not ended in it; mostly none."""
    end = before.rstrip()
    opened = end.endswith(tuple(MARKS)) and not _END.search(completion)
    return next(mark for mark in MARKS if end.endswith(mark)) if opened else ""
