"""The identity of an order of prompts, so that a resume with other data is refused."""

from __future__ import annotations

from collections.abc import Mapping

from lightrl.data.survey import Survey
from lightrl.parts.prompts import PromptSource
from lightrl.types import JSON

REPORTED = ("answers",)
"""Entries that may change without a position meaning another prompt."""


def order_of(survey: Survey, source: PromptSource, shuffle: bool, seed: int) -> dict[str, JSON]:
    """Number of prompts, hashes of their ids and contents in order and of their answers and columns, and how they are mixed and shuffled.

    Args:
        survey: of the source.
        source: of the training prompts.
        shuffle: whether they are shuffled.
        seed: of the order.
    """
    hashes = {"contents": survey.contents, "answers": survey.answers}
    return {"prompts": source.size, **hashes, "parts_by_weight": sorted(source.shares(0)), "shuffle": shuffle, "seed": seed}


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
