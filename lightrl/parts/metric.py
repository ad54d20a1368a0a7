"""The raw reward that tells a sampler which completions succeeded, and which groups have some variance."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lightrl.types import ScoredRollout


def deciding_reward(rewards: Sequence[str], metric: str | None) -> str:
    """The name of the raw reward that a sampler goes by.

    Args:
        rewards: the names that there are.
        metric: the sampler's argument of this name; None: the only one there is.

    Raises:
        ValueError: there is no reward of that name, or none is named and there is not exactly one.
    """
    names = sorted(rewards)
    if metric in names:
        return metric
    if metric is None and len(names) == 1:
        return names[0]
    problem = f"{metric!r}, and no reward is named so" if metric is not None else "null, and there is not exactly one reward"
    there = f"there are {', '.join(names)}; for example metric: {names[0]}" if names else "there is none"
    raise ValueError(f"algorithm.sampler.metric is {problem}: name the one that says whether a completion succeeded; {there}")


def metric_of(scored: ScoredRollout, metric: str | None) -> Tensor:
    """`[N]` f32: one raw reward of every row, a row's steps added up; NaN without a score.

    Args:
        scored: rows with their raw rewards.
        metric: name of the reward; None: the only one there is.

    Raises:
        ValueError: as `deciding_reward`.
    """
    part = scored.reward_parts[deciding_reward(list(scored.reward_parts), metric)]
    return part if part.dim() == 1 else torch.where(part.isnan().all(1), torch.nan, part.nansum(1))
