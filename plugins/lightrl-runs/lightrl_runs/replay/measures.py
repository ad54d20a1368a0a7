"""Two algorithms compared on the same rows: how much each token, row, length and prompt weighs, and where they disagree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from lightrl.types import ScoredRollout
from lightrl_runs.replay.outcome import Outcome

LENGTHS = 4
"""Classes of length, with about as many rows each."""


@dataclass(frozen=True)
class Share:
    """A part of the rows, and how much of the gradient is theirs."""

    name: str
    """Of the part."""
    rows: int
    """How many it has."""
    shares: tuple[float, ...]
    """Per algorithm: the sum of |d loss / d log-prob| over its tokens, by that over all tokens; NaN if there is no gradient."""


@dataclass(frozen=True)
class Disagreement:
    """A row that two algorithms pull differently."""

    row: int
    """Its number in the rollout."""
    pulls: tuple[float, float]
    """Per algorithm: the sum of its tokens' pulls by that of the sizes of all pulls; above 0 the row is made likelier."""


def weights_of_rows(outcome: Outcome) -> Tensor:
    """`[N]`: each row's share of the gradient of the log-probs; NaN if there is none."""
    sizes = outcome.pulls.abs().sum(1)
    return sizes / sizes.sum()


def by_length(outcomes: list[Outcome]) -> Iterator[Share]:
    """The shares of short and long rows.

    Args:
        outcomes: of the same rows.
    """
    lengths = outcomes[0].batch.response_lengths
    order = lengths.argsort(stable=True)
    for rows in order.tensor_split(min(LENGTHS, max(len(order), 1))):
        if len(rows):
            low, high = int(lengths[rows].min()), int(lengths[rows].max())
            name = f"{low} tokens" if low == high else f"{low} to {high} tokens"
            yield Share(name, len(rows), _shares(outcomes, rows))


def by_group(outcomes: list[Outcome], most: int) -> list[Share]:
    """The shares of the groups on which the algorithms differ most, or that weigh most where there is one.

    Args:
        outcomes: of the same rows.
        most: groups to name.
    """
    batch = outcomes[0].batch
    groups = [(int(number), (batch.group == number).nonzero()[:, 0]) for number in torch.unique(batch.group)]
    found = [Share(_group_name(batch, rows), len(rows), _shares(outcomes, rows)) for _, rows in groups]
    spread = (lambda share: share.shares[0]) if len(outcomes) == 1 else (lambda share: abs(share.shares[0] - share.shares[1]))
    return sorted(found, key=spread, reverse=True)[:most]


def disagreements(one: Outcome, other: Outcome, most: int) -> list[Disagreement]:
    """The rows whose tokens two algorithms pull most differently.

    Args:
        one: of the run's algorithm.
        other: of another one, on the same rows.
        most: rows to name.
    """
    mine, theirs = (outcome.pulls / outcome.pulls.abs().sum().clamp(min=torch.finfo(torch.float64).tiny) for outcome in (one, other))
    order = (mine - theirs).abs().sum(1).argsort(descending=True, stable=True)[:most]
    return [Disagreement(int(row), (-float(mine[row].sum()), -float(theirs[row].sum()))) for row in order]


def share_of_tokens(outcome: Outcome) -> float:
    """The sampled tokens that have a gradient."""
    mask = outcome.batch.response_mask
    return float(((outcome.pulls != 0) & mask).sum() / mask.sum().clamp(min=1))


def _shares(outcomes: list[Outcome], rows: Tensor) -> tuple[float, ...]:
    return tuple(float(weights_of_rows(outcome)[rows].sum()) for outcome in outcomes)


def _group_name(batch: ScoredRollout, rows: Tensor) -> str:
    return batch.prompts[int(rows[0])].id
