"""The lengths of prompts, and the ones that fit the policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lightrl.parts.prompts import PromptSource
from lightrl.types import Prompt

Encode = Callable[[Prompt], list[int]]
"""The policy's own encoding of a prompt."""


@dataclass(frozen=True)
class Measured:
    """The lengths of the prompts of a source."""

    fitting: list[int]
    """Indices of the prompts that are short enough."""
    too_long: int
    """Number of the others."""
    longest: int
    """Tokens of the longest prompt."""
    bound: int | None
    """Most tokens a prompt may have."""
    example: str | None
    """The id of a prompt that is too long; None if all fit."""

    def __str__(self) -> str:
        return f"{self.too_long} have more than {self.bound} tokens (the longest {self.longest}), for example {self.example!r}"


def measure_source(source: PromptSource, encode: Encode, bound: int | None) -> Measured:
    """Encode every prompt of a sized source.

    Args:
        source: sized.
        encode: the policy's own encoding.
        bound: most tokens a prompt may have; None: any number.

    Raises:
        ValueError: a prompt cannot be encoded; the message names it.
    """
    lengths = [_length(source.prompt(index), encode) for index in range(source.size or 0)]
    fitting = [index for index, length in enumerate(lengths) if bound is None or length <= bound]
    kept = set(fitting)
    example = next((source.prompt(i).id for i in range(len(lengths)) if i not in kept), None)
    return Measured(fitting, len(lengths) - len(fitting), max(lengths, default=0), bound, example)


def refuse_too_long(prompts: Sequence[Prompt], encode: Encode, bound: int) -> None:
    """Refuse prompts of an endless source that are too long: they cannot be measured beforehand, and dropping one would break the order.

    Raises:
        ValueError: a prompt has more than `bound` tokens, or cannot be encoded.
    """
    for prompt in prompts:
        length = _length(prompt, encode)
        if length > bound:
            raise ValueError(
                f"prompt {prompt.id!r} of the endless training source has {length} tokens, and at most {bound} are allowed: "
                "an endless source must keep to the limit itself"
            )


def _length(prompt: Prompt, encode: Encode) -> int:
    try:
        return len(encode(prompt))
    except Exception as error:
        raise ValueError(f"prompt {prompt.id!r} cannot be encoded: {error}") from error
