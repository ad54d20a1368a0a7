"""One optimizer step made of micro-batches, whose gradient does not depend on how the rows are cut."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import torch
from lightning.pytorch.core.optimizer import LightningOptimizer
from torch import Tensor

from lightrl.strategies.adapter import StrategyAdapter
from lightrl.training.statistics import Reported, StatisticsLedger
from lightrl.types import Rows

R = TypeVar("R", bound=Rows)


class MicroBatchLoss(NamedTuple):
    """The share of one micro-batch in the loss of its optimizer step."""

    loss: Tensor
    """A scalar with gradient: the share of this micro-batch in the sum over the step and all ranks."""
    shares: dict[str, float]
    """The same in numbers, by the names under which the terms of the loss are logged."""
    statistics: Sequence[Reported] = ()
    """Numbers about the rows of the micro-batch."""


@dataclass(frozen=True)
class Step:
    """The outcome of one optimizer step."""

    made: bool
    """False if the step was vetoed, and its gradients were dropped."""
    statistics: StatisticsLedger
    """The numbers of its micro-batches, of this rank."""


@dataclass(frozen=True)
class Accumulated:
    """Sums over the micro-batches of one optimizer step, of this rank."""

    shares: dict[str, float]
    """The loss of the step by terms."""
    statistics: StatisticsLedger
    """Numbers about its rows."""


def add_gradients(
    adapter: StrategyAdapter,
    batch: R,
    lengths: Tensor,
    cuts: Sequence[Tensor],
    loss_of: Callable[[R], MicroBatchLoss],
    statistics: StatisticsLedger,
) -> Accumulated:
    """Forward and backward of each micro-batch.

    Args:
        adapter: of the strategy.
        batch: rows of this rank.
        lengths: `[N]` int64, tokens of each row that matter.
        cuts: rows of each micro-batch, as many micro-batches as on every other rank.
        loss_of: the loss of a micro-batch.
        statistics: empty; receives those of the micro-batches.
    """
    shares: dict[str, float] = {}
    for i, rows in enumerate(cuts):
        # a rank with fewer micro-batches than the others takes part with a row that weighs nothing
        chosen = rows if len(rows) else torch.zeros(1, dtype=torch.long)
        micro = batch.select(chosen).padded(int(lengths[chosen].max())).to(adapter.module.device)
        found = adapter.forward(loss_of, micro)
        adapter.backward(found.loss if len(rows) else found.loss * 0.0, last=i == len(cuts) - 1)
        statistics.add_report(found.statistics)
        for name, share in found.shares.items():
            shares[name] = shares.get(name, 0.0) + share
    return Accumulated(shares, statistics)


def take_step(adapter: StrategyAdapter, optimizer: LightningOptimizer, max_grad_norm: float | None, ledger: StatisticsLedger) -> None:
    """Clip the gradients, step, and report the rate and the norm.

    Args:
        adapter: of the strategy.
        optimizer: from `LightningModule.optimizers`.
        max_grad_norm: gradients are scaled down to this norm; None: never.
        ledger: receives the numbers.
    """
    ledger.add("lr", optimizer.param_groups[0]["lr"])
    norm = adapter.step(optimizer, max_grad_norm)
    ledger.add("grad_norm", norm)
    if not math.isfinite(norm):
        ledger.add("nonfinite_gradients", 1 / adapter.world_size, reduce="sum")
    ledger.add("optimizer_steps", 1 / adapter.world_size, reduce="sum")
