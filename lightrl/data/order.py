"""The identity of an order of prompts, so that a resume with other data is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b

from lightrl.data.content import content_hash
from lightrl.parts.prompts import PromptSource
from lightrl.types import JSON

REPORTED = ("answers",)
"""Entries that may change without a position meaning another prompt."""
ENDLESS_SAMPLE = 16
"""Prompts of an endless source that stand for the rest."""


def order_of(source: PromptSource, shuffle: bool, seed: int) -> dict[str, JSON]:
    """Number of prompts, hashes of their ids and contents in order and of their answers and columns, and how they are shuffled."""
    digest, answers = blake2b(digest_size=16), blake2b(digest_size=16)
    for index in range(ENDLESS_SAMPLE if source.size is None else source.size):
        prompt = source.prompt(index)
        digest.update(f"{prompt.id}\n{content_hash(prompt)}\n".encode())
        answers.update(json.dumps([prompt.answer, dict(prompt.columns)], sort_keys=True, default=str).encode())
    found: dict[str, JSON] = {"prompts": source.size, "contents": digest.hexdigest(), "answers": answers.hexdigest()}
    return {**found, "shuffle": shuffle, "seed": seed}


def must_be_the_same(ours: Mapping[str, JSON], theirs: Mapping[str, JSON]) -> None:
    """Compare the order of this run with that of a checkpoint.

    Raises:
        ValueError: a position in the one means nothing in the other; the message says what differs.
    """
    differing = [name for name in ours if name not in REPORTED and ours[name] != theirs[name]]
    if not differing:
        return
    if "prompts" in differing:
        difference = f"it was trained on {theirs['prompts']} prompts and these are {ours['prompts']}"
    elif "contents" in differing:
        difference = f"its {theirs['prompts']} training prompts had other ids or contents, or stood in another order"
    else:
        difference = ", ".join(f"its data.{name} was {theirs[name]} and is now {ours[name]}" for name in differing)
    raise ValueError(
        f"the checkpoint cannot be resumed with these data: {difference}. Restore the data settings of that run (source, limits, "
        "split, seed), or type --data.other_prompts restart to begin with these from their first one"
    )
