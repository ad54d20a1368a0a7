"""The learner: a policy with its optimizer, on the strategy of a run; its steps do not depend on how rows are cut."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar

import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable
from lightning.pytorch.core.optimizer import LightningOptimizer
from torch import Tensor

from lightrl.ops.batching import split_to
from lightrl.parts.reference import Reference
from lightrl.policy.policy import Policy
from lightrl.policy.source import PolicySource
from lightrl.policy.weights import TrainerWeights
from lightrl.rows import Rows
from lightrl.strategies.adapter import StrategyAdapter
from lightrl.strategies.adapter_choice import adapter_for
from lightrl.training.reports.run_ledger import RunLedger
from lightrl.training.reports.statistics import Reported, StatisticsLedger
from lightrl.training.setup.optimizer_checks import tried_schedule
from lightrl.training.setup.precision import compute_dtype
from lightrl.training.steps.fitting_passes import FittingPasses, MicroBatchTokens, TokenBudget

R = TypeVar("R", bound=Rows)
Veto = Callable[[StatisticsLedger], bool]
"""Whether a step is not to be made, given its statistics; the same answer on all ranks."""


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


@dataclass(frozen=True)
class StepSettings:
    """The settings of a module about its steps."""

    micro_batch_tokens: MicroBatchTokens
    """Tokens per forward and backward pass."""
    optimizer: OptimizerCallable
    """Makes the optimizer of parameter groups."""
    lr_scheduler: LRSchedulerCallable | None
    """Makes its schedule, stepped after every optimizer step; None: a constant rate."""
    max_grad_norm: float | None
    """Gradients are scaled down to this norm; None: never."""


class Learner:
    """A policy, its optimizer and the strategy's adapter: passes over rows in micro-batches, and optimizer steps made of them."""

    policy: Policy
    """The network that is trained; there once the module has built it."""

    def __init__(self, module: LightningModule, ledger: RunLedger, source: PolicySource, settings: StepSettings) -> None:
        """The module is what Lightning trains; it has the networks as children, under whose names checkpoints store them."""
        self.module, self.ledger, self.source, self.settings = module, ledger, source, settings
        self.budget = TokenBudget(settings.micro_batch_tokens)

    @cached_property
    def adapter(self) -> StrategyAdapter:
        """Forward, backward, step and sums over ranks, as the strategy does them."""
        return adapter_for(self.module.trainer, self.module)

    def attach(self, policy: Policy) -> None:
        """Train this policy, as the child `policy` of the module."""
        self.policy = policy
        self.module.add_module("policy", policy)

    @property
    def device(self) -> torch.device:
        """The device on which this rank trains."""
        return self.module.device

    @property
    def steps(self) -> int:
        """Optimizer steps made so far."""
        return self.module.trainer.global_step

    @property
    def compute_dtype(self) -> torch.dtype:
        """The dtype that the layers compute in, also where Lightning's autocast is off at the moment."""
        with self.module.trainer.precision_plugin.forward_context():
            return compute_dtype(self.policy.model.dtype, self.device)

    def weights(self) -> TrainerWeights:
        """The present weights of the policy, for an engine."""
        return TrainerWeights(self.policy, self.adapter, self.compute_dtype)

    @property
    def group_count(self) -> int:
        """The number of `parameter_groups` that there will be, known before anything is built."""
        return 1

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Parameter groups for the optimizer, with the names of the parameters."""
        named = {name: p for name, p in self.policy.named_parameters() if p.requires_grad}
        return [{"params": list(named.values()), "param_names": list(named)}]

    def tried_schedule(self) -> Any:
        """The schedule of a trial on parameters of its own; None if there is none."""
        device = self.module.trainer.strategy.root_device
        return tried_schedule(self.settings.optimizer, self.settings.lr_scheduler, self.group_count, device)

    def make_optimizer(self) -> torch.optim.Optimizer:
        """One optimizer over the parameter groups, once it and its schedule have been tried."""
        self.tried_schedule()
        return self.adapter.optimizer(self.settings.optimizer, self.parameter_groups())

    @property
    def optimizer(self) -> LightningOptimizer:
        """The optimizer of all parameter groups, once the trainer has made it."""
        made = self.module.optimizers()
        if not isinstance(made, LightningOptimizer):
            raise TypeError(f"a module has one optimizer, and Lightning gives {type(made).__name__}")
        return made

    def move(self, references: Iterable[Reference]) -> None:
        """Let the references that move at this step see the policy's weights, gathered once; every rank calls it after a step."""
        moving = [reference for reference in references if reference.moves_at(self.steps)]
        if not moving:
            return
        with self.adapter.gathered_weights():
            for reference in moving:
                reference.after_step(self.policy, self.steps)

    @property
    def fitting(self) -> FittingPasses:
        """Passes over rows, in micro-batches that fit the memory."""
        return FittingPasses(self.budget, self.policy.longest_packed, self.adapter.restarts)

    def step_on(self, batch: R, loss_of: LossOf[R], veto: Veto | None = None) -> Step:
        """One optimizer step on a batch, whose gradient does not depend on how it is cut into micro-batches.

        `veto` is asked after the last backward, with the same answer on all ranks; True drops the gradients. The ledger gets all numbers.
        """
        sequences, optimizer = batch.sequences().to("cpu"), self.optimizer
        act = partial(self._passes, batch, batch.places(), loss_of)
        shares, statistics = self.fitting.run(sequences, act, lambda: self.adapter.discard(optimizer))
        made = veto is None or not veto(statistics)
        if made:
            self._take(optimizer)
        else:
            self.adapter.discard(optimizer)
        for name, share in shares.items():
            self.ledger.add(name, share * self.adapter.world_size)
        self.ledger.merge(statistics)
        return Step(made, statistics)

    def _passes(self, batch: R, lengths: Tensor, loss_of: LossOf[R], cuts: list[Tensor]) -> tuple[dict[str, Tensor], StatisticsLedger]:
        """The gradient of all micro-batches, with the shares of the loss and the statistics."""
        cuts = split_to(cuts, self.adapter.largest(len(cuts)))
        shares, statistics = dict[str, Tensor](), StatisticsLedger(self.ledger.kept)
        for i, rows in enumerate(cuts):
            # a rank with fewer micro-batches than the others takes part with a row that weighs nothing
            chosen = rows if len(rows) else torch.zeros(1, dtype=torch.long)
            micro = batch.select(chosen).padded(int(lengths[chosen].max())).to(self.device)
            found = self.adapter.forward(loss_of, micro)
            self.adapter.backward(found.loss if len(rows) else found.loss * 0.0, last=i == len(cuts) - 1)
            statistics.add_report(found.statistics)
            for name, share in found.shares.items():
                shares[name] = shares[name] + share if name in shares else share
        return shares, statistics

    def _take(self, optimizer: LightningOptimizer) -> None:
        """Clip the gradients, step, and move the learning rate on."""
        world, ledger = self.adapter.world_size, self.ledger
        scheduler: Any = self.module.lr_schedulers()
        ledger.add("lr", optimizer.param_groups[0]["lr"])
        norm = self.adapter.step(optimizer, self.settings.max_grad_norm)
        ledger.add("grad_norm", norm)
        if not math.isfinite(norm):
            ledger.add("nonfinite_gradients", 1 / world, reduce="sum")
        ledger.add("optimizer_steps", 1 / world, reduce="sum")
        if scheduler is not None:
            scheduler.step()


def local_denominators(token_weight: Tensor, group: Tensor) -> Tensor:
    """`[4]` float64: this rank's share of the fields of `Denominators`, to be summed over ranks."""
    filled = token_weight.sum(1) > 0
    numbers = (token_weight.double().sum(), filled.sum(), torch.tensor(len(filled)), torch.tensor(len(torch.unique(group[filled]))))
    return torch.stack([number.double().cpu() for number in numbers])
