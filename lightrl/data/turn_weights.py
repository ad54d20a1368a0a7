"""The weights in the loss that messages of a conversation give themselves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from lightrl.types import JSON

TURN_WEIGHTS = "turn_weights"
"""In `Prompt.meta`: per message the weight that it was given, null where it says nothing."""


def turn_weights(place: str, turns: Sequence[Mapping[str, Any]]) -> dict[str, JSON]:
    """The weights that messages give themselves, by `train: false` or `weight: 0.5`; empty if none does.

    Args:
        place: where the conversation stands, for messages.
        turns: the messages as they stand in the data.

    Raises:
        ValueError: a weight is no finite number of 0 or more, or a message of somebody else than the assistant is to be learnt.
    """
    # a table has every key in every row, null where a message does not have it
    if all(turn.get("train") is None and turn.get("weight") is None for turn in turns):
        return {}
    found = [_weight(f"{place}: message {number}", turn) for number, turn in enumerate(turns, 1)]
    return {TURN_WEIGHTS: found}


def _weight(message: str, turn: Mapping[str, Any]) -> float | None:
    train, weight = turn.get("train"), turn.get("weight")
    if train is None and weight is None:
        return None
    if train is not None and weight is not None:
        raise ValueError(f"{message} has both train and weight: give one of them")
    if train is not None and not isinstance(train, bool):
        raise ValueError(f"{message}: train must be true or false, got {train!r:.40}")
    if weight is not None and (isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0 <= weight < math.inf):
        raise ValueError(f"{message}: weight must be a finite number of 0 or more, got {weight!r:.40}")
    value = float(bool(train) if weight is None else weight)
    if value and turn["role"] != "assistant":
        raise ValueError(f"{message} is the {turn['role']}'s and cannot be learnt on its own: only messages of the assistant have a weight")
    return value
