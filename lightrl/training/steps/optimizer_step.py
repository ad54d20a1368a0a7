"""One optimizer step made of micro-batches, whose gradient does not depend on how the rows are cut."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

import torch
from lightning.pytorch.core.optimizer import LightningOptimizer
from torch import Tensor

from lightrl.ops.batching import split_to
from lightrl.rows import Rows
from lightrl.strategies.adapter import StrategyAdapter
from lightrl.training.reports.statistics import Reported, StatisticsLedger
from lightrl.training.steps.fitting_passes import FittingPasses

R = TypeVar("R", bound=Rows)
Veto = Callable[[StatisticsLedger], bool]
"""Whether a step is not to be made, given its statistics; the same answer on all ranks."""


def never(statistics: StatisticsLedger) -> bool:
    """The veto of nobody."""
    return False


class MicroBatchLoss(NamedTuple):
    """The share of one micro-batch in the loss of its optimizer step."""

    loss: Tensor
    """A scalar with gradient: the share of this micro-batch in the sum over the step and all ranks."""
    shares: dict[str, Tensor]
    """The same without gradient, by the names under which the terms of the loss are logged; on the device until the step is made."""
    statistics: Sequence[Reported] = ()
    """Numbers about the rows of the micro-batch."""


LossOf = Callable[[R], MicroBatchLoss]
"""Gives the loss of a micro-batch and changes nothing."""


@dataclass(frozen=True)
class Step:
    """The outcome of one optimizer step."""

    made: bool
    """False if the step was vetoed, and its gradients were dropped."""
    statistics: StatisticsLedger
    """The numbers of its micro-batches, of this rank."""


def one_optimizer(made: object) -> LightningOptimizer:
    """The optimizer of a module, as `LightningModule.optimizers` gives it.

    Raises:
        TypeError: there are several, or it is not wrapped by Lightning.
    """
    if not isinstance(made, LightningOptimizer):
        raise TypeError(f"a module has one optimizer, and Lightning gives {type(made).__name__}")
    return made


@dataclass(frozen=True)
class StepMaker:
    """Makes optimizer steps of micro-batches."""

    adapter: StrategyAdapter
    """Of the strategy."""
    optimizer: LightningOptimizer
    """Of all parameter groups."""
    scheduler: Any
    """Of the learning rate, stepped after every optimizer step; None: there is none."""
    max_grad_norm: float | None
    """Gradients are scaled down to this norm; None: never."""
    ledger: StatisticsLedger
    """Receives the losses and the statistics."""
    passes: FittingPasses
    """Cut rows into micro-batches that fit the memory."""

    def make(self, batch: R, loss_of: LossOf[R], veto: Veto) -> Step:
        """One optimizer step on a batch.

        Args:
            batch: rows of this rank.
            loss_of: the share of a micro-batch in the sum over the step and all ranks, and its statistics; it changes nothing else.
            veto: asked after the last backward, given the step's statistics, with the same answer on all ranks; True drops the gradients.

        Returns:
            Whether the step was made, and its statistics, which the ledger has already.
        """
        sequences = batch.sequences().to("cpu")
        learn = partial(self._learn, batch, sequences.longest(), loss_of)
        shares, statistics = self.passes.run(sequences, learn, lambda: self.adapter.discard(self.optimizer))
        made = not veto(statistics)
        if made:
            self._take()
        else:
            self.adapter.discard(self.optimizer)
        for name, share in shares.items():
            self.ledger.add(name, share * self.adapter.world_size)
        self.ledger.merge(statistics)
        return Step(made, statistics)

    def _learn(self, batch: R, lengths: Tensor, loss_of: LossOf[R], cuts: list[Tensor]) -> tuple[dict[str, Tensor], StatisticsLedger]:
        """The gradient of all micro-batches, with the shares of the loss and the statistics.

        Args:
            batch: rows of this rank.
            lengths: `[N]` int64, on the CPU: positions of each row that matter.
            loss_of: see `make`.
            cuts: the rows of each micro-batch.
        """
        cuts = split_to(cuts, self.adapter.largest(len(cuts)))
        shares, statistics = dict[str, Tensor](), StatisticsLedger(self.ledger.kept)
        for i, rows in enumerate(cuts):
            # a rank with fewer micro-batches than the others takes part with a row that weighs nothing
            chosen = rows if len(rows) else torch.zeros(1, dtype=torch.long)
            micro = batch.select(chosen).padded(int(lengths[chosen].max())).to(self.adapter.module.device)
            found = self.adapter.forward(loss_of, micro)
            self.adapter.backward(found.loss if len(rows) else found.loss * 0.0, last=i == len(cuts) - 1)
            statistics.add_report(found.statistics)
            for name, share in found.shares.items():
                shares[name] = shares[name] + share if name in shares else share
        return shares, statistics

    def _take(self) -> None:
        """Clip the gradients, step, and move the learning rate on."""
        world, ledger = self.adapter.world_size, self.ledger
        ledger.add("lr", self.optimizer.param_groups[0]["lr"])
        norm = self.adapter.step(self.optimizer, self.max_grad_norm)
        ledger.add("grad_norm", norm)
        if not math.isfinite(norm):
            ledger.add("nonfinite_gradients", 1 / world, reduce="sum")
        ledger.add("optimizer_steps", 1 / world, reduce="sum")
        if self.scheduler is not None:
            self.scheduler.step()
