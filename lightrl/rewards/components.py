"""The part of each reward in the sum: its weight, its normalisation, its share of the differences within a group."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from lightrl.ops.moments import centered, group_statistics, row_values
from lightrl.parts.reward import Reward
from lightrl.rows import on_last_token
from lightrl.types import ScoredRollout


def on_tokens(name: str, reward: Reward, scored: ScoredRollout) -> Tensor:
    """`[N, L]`: a reward's scores on the tokens that earned them, not yet weighted; NaN where there is none.

    Args:
        scored: whole groups.

    Raises:
        ValueError: a reward of tokens is to be normalised.
    """
    part = _component(name, reward, scored, normalized=True)
    return on_last_token(part, scored.response_mask) if part.dim() == 1 else part


def on_rows(name: str, reward: Reward, scored: ScoredRollout, normalized: bool) -> Tensor:
    """`[N]`: a reward's score of each row, not yet weighted, steps added up; 0 where there is none, NaN on rows that are not scorable.

    A row without response tokens has its score too.

    Args:
        scored: whole groups.
        normalized: as the reward says; False: the raw scores.

    Raises:
        ValueError: a reward of tokens is to be normalised.
    """
    values = row_values(_component(name, reward, scored, normalized))
    return torch.where(scored.scorable, values.nan_to_num(0.0), math.nan)


def _component(name: str, reward: Reward, scored: ScoredRollout, normalized: bool) -> Tensor:
    """`[N]` or `[N, L]`: what the reward gave, normalised if it says so; NaN on rows that are not scorable."""
    part = scored.reward_parts[name]
    if normalized and reward.normalize == "group":
        if part.dim() != 1:
            raise ValueError(
                f"reward {name!r} scores tokens, and normalize: group compares one score per row: return a number per completion, or leave "
                "normalize out"
            )
        part = z_scores(part, scored.group, scored.scorable)
    return torch.where(scored.scorable if part.dim() == 1 else scored.scorable[:, None], part, math.nan)


def z_scores(values: Tensor, group: Tensor, valid: Tensor) -> Tensor:
    """(value - mean) / std of its group, `[N]`; 0 in a group of equal values, NaN where a row is not valid or has no value.

    Args:
        values: `[N]`, NaN without one.
        group: `[N]` int64.
        valid: `[N]` bool, rows that count.
    """
    counts = valid & ~values.isnan()
    of_group = group_statistics(values, group, counts)
    z = torch.where(of_group.zero_variance, 0.0, (values.double() - of_group.mean) / of_group.std)
    return torch.where(counts, z, math.nan).to(values.dtype)


def shares(weighted: dict[str, Tensor], group: Tensor, valid: Tensor) -> dict[str, float]:
    """The share of each reward in the differences between the rows of a group; over all rewards the shares add up to 1.

    share_k = sum_i (c_ki - mean_g c_k) (R_i - mean_g R) / sum_i (R_i - mean_g R)^2, with c_ki the part of reward k in row i, R_i = sum_k
    c_ki, and mean_g over the valid rows of the row's group: the covariance of the part with the whole, within groups. It is below 0 for
    a reward that pulls against the others. NaN where no group has differing rows.

    Args:
        weighted: per reward `[N]`, weighted.
        group: `[N]` int64.
        valid: `[N]` bool.
    """
    parts = {name: centered(values, group, valid) for name, values in weighted.items()}
    whole = torch.stack(list(parts.values())).sum(0)
    spread = float((whole**2).sum())
    noise = 1e-12 * float(torch.stack([(part**2).sum() for part in parts.values()]).sum())
    return {name: float((part * whole).sum()) / spread if spread > noise else math.nan for name, part in parts.items()}
