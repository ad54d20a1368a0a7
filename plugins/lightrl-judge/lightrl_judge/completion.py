"""A chat completion as a server sends it: the few fields that count, read without a model of the others, whose number nobody bounds."""

import json
from dataclasses import dataclass
from typing import Any

from lightrl_judge.failures import beginning


@dataclass(frozen=True)
class Completion:
    """The first choice of a chat completion."""

    text: str
    """What the model wrote."""
    finish_reason: str | None
    """Why it ended."""
    refusal: str | None
    """What it wrote in place of an answer."""
    tokens: int | None
    """Of prompt and reply together, at least 0; None if the server does not say."""


def read_completion(body: bytes) -> Completion:
    """The completion in the body of an answer.

    Raises:
        ValueError: it is none; the message has its beginning.
    """
    try:
        answer: Any = json.loads(body)
        choice = answer["choices"][0]
        message, usage = choice["message"], answer.get("usage")
        text, refusal, reason = message.get("content"), message.get("refusal"), choice.get("finish_reason")
        tokens = usage.get("total_tokens") if isinstance(usage, dict) else None
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        raise ValueError(beginning(body[:400].decode(errors="replace"))) from None
    if not all(one is None or isinstance(one, str) for one in (text, refusal, reason)) or not isinstance(tokens, int | None):
        raise ValueError(beginning(body[:400].decode(errors="replace")))
    return Completion(text or "", reason, refusal, None if tokens is None else max(0, tokens))
