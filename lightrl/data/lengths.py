"""Which prompts fit the policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lightrl.parts.prompts import PromptSource
from lightrl.types import Prompt

Encode = Callable[[Prompt], list[int]]
"""The policy's own encoding of a prompt."""


@dataclass(frozen=True)
class Measured:
    """How long the prompts of a source are."""

    fitting: list[int]
    """Indices of the prompts that are short enough."""
    longest: int
    """Tokens of the longest prompt."""
    too_long: str | None
    """The id of a prompt that is too long; None if all fit."""


def measure_source(source: PromptSource, encode: Encode, bound: int | None) -> Measured:
    """Encode every prompt of a sized source.

    Args:
        source: sized.
        encode: the policy's own encoding.
        bound: most tokens a prompt may have; None: any number.

    Raises:
        ValueError: a prompt cannot be encoded; the message names it.
    """
    fitting, longest, too_long = [], 0, None
    for index in range(source.size or 0):
        prompt = source.prompt(index)
        length = encoded_length(prompt, encode)
        longest = max(longest, length)
        if bound is None or length <= bound:
            fitting.append(index)
        else:
            too_long = too_long or prompt.id
    return Measured(fitting, longest, too_long)


def encoded_length(prompt: Prompt, encode: Encode) -> int:
    """Tokens of a prompt.

    Raises:
        ValueError: it cannot be encoded; the message names it.
    """
    try:
        return len(encode(prompt))
    except Exception as error:
        raise ValueError(f"prompt {prompt.id!r} cannot be encoded: {error}") from error
