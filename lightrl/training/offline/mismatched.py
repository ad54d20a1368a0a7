"""Prompts with completions that were written for others: the baseline of objectives that compare a step's rows with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from lightrl.parts.prompts import content_hash
from lightrl.policy.policy import Policy
from lightrl.training.offline.encoded_rows import EncodedRows, encode_rows, longest_row
from lightrl.types import Prompt


@dataclass(frozen=True, order=True)
class PlacedRow:
    """A row in an order that does not depend on how rows are spread over ranks."""

    place: str
    """Where the row stands: a hash of the prompt's id, since repeated prompts have ids that are alike."""
    prompt: str
    """A hash of the prompt's content."""
    completion: str
    """Its text."""


def mismatched_rows(
    policy: Policy,
    prompts: Sequence[Prompt],
    completions: Sequence[str],
    gather: Callable[[Any], list[Any]],
    max_length: int | None,
) -> EncodedRows:
    """Each prompt with the completion of another one; without those that have no partner, or would be too long.

    Args:
        policy: whose tokenizer and chat template are used.
        prompts: of this rank.
        completions: one per prompt, its own.
        gather: gives what every rank passed to it; every rank calls it.
        max_length: most tokens of a row; None: as many as the policy takes.
    """
    mine = [PlacedRow(_place(p.id), content_hash(p), text) for p, text in zip(prompts, completions, strict=True)]
    others = partners(mine, [row for of_rank in gather(mine) for row in of_rank])
    bound = longest_row(policy, max_length)
    found = [
        (prompt, text)
        for prompt, text in zip(prompts, others, strict=True)
        if text is not None and (bound is None or len(policy.encode_completion(prompt, text).ids) <= bound)
    ]
    return encode_rows(policy, [prompt for prompt, _ in found], [text for _, text in found], max_length)


def partners(mine: Sequence[PlacedRow], everyone: Sequence[PlacedRow]) -> list[str | None]:
    """For each row the completion of the next row that has another prompt; None if all rows have the same.

    Args:
        mine: rows of this rank.
        everyone: rows of all ranks.
    """
    ring = sorted(everyone)
    found: list[str | None] = []
    for row in mine:
        start = ring.index(row)
        following = (ring[(start + step) % len(ring)] for step in range(1, len(ring)))
        found.append(next((other.completion for other in following if other.prompt != row.prompt), None))
    return found


def _place(name: str) -> str:
    return blake2b(name.encode(), digest_size=8).hexdigest()
