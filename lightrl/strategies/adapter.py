"""The differences between Lightning's strategies: forward, backward, step, gathered weights, sums over ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TypeVar

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.core.optimizer import LightningOptimizer
from lightning.pytorch.strategies import DDPStrategy, Strategy
from torch import Tensor, distributed, nn

from lightrl.policy.weight_access import WeightAccess
from lightrl.strategies.master_weights import Groups, MasterWeights

T = TypeVar("T")
Loss = TypeVar("Loss")

FROZEN = "frozen"
"""Key of a parameter group whose parameters and optimizer state the next step leaves alone."""


class StrategyAdapter(WeightAccess):
    """Single device and DDP: every rank has all weights; gradients are averaged in the last backward, or in the step for half weights."""

    def __init__(self, trainer: Trainer, module: LightningModule) -> None:
        self.trainer, self.module = trainer, module
        self._masters = MasterWeights([], module)

    @property
    def world_size(self) -> int:
        """Ranks that share the optimizer step."""
        return self.trainer.world_size

    @property
    def cuts_weights(self) -> bool:
        """A rank keeps its share of the weights alone, so that they need not be read whole."""
        return False

    @property
    def arrangement(self) -> str:
        """The name under which `rank_memory` has formulas for it."""
        return "ddp" if isinstance(self.trainer.strategy, DDPStrategy) else "auto"

    @property
    def restarts(self) -> bool:
        """A backward pass that fails leaves nothing behind but gradients, and no other rank waits in it."""
        return self.world_size == 1

    @property
    def rank(self) -> int:
        return self.trainer.global_rank

    def shard(self, *modules: nn.Module | None) -> None:
        """Cut the weights of modules over the ranks, those that have not been read included; called before the optimizer is made."""

    def optimizer(self, make: Callable[[Groups], torch.optim.Optimizer], groups: Groups) -> torch.optim.Optimizer:
        """The optimizer of parameter groups; in place of weights in half precision it moves float32 copies of them."""
        self._masters = MasterWeights(groups, self.module)
        return self._masters.optimizer(make)

    def moved(self, weight: nn.Parameter) -> nn.Parameter:
        """The tensor that the optimizer moves in place of a weight; it has the gradient before a step."""
        return self._masters.moved(weight)

    def forward(self, loss_of: Callable[[T], Loss], micro: T) -> Loss:
        """The loss of a micro-batch, computed where the strategy sees it: everything that `backward` gets comes from here.

        Args:
            loss_of: gives the loss, or a tuple with it.
        """
        return loss_of(micro)

    def backward(self, loss: Tensor, last: bool) -> None:
        """Add the gradient of one micro-batch's share of the loss.

        Args:
            loss: this rank's share of the sum over all ranks; a scalar.
            last: no further micro-batch follows in this optimizer step.
        """
        strategy = self.trainer.strategy
        # DDP would send what one micro-batch has given, in half precision
        apart = not last or len(self._masters)
        with strategy.block_backward_sync() if isinstance(strategy, DDPStrategy) and apart else nullcontext():
            # strategies average over ranks, and a share is to be added
            self.module.manual_backward(loss * self.world_size)

    def zero_loss(self, parameters: Iterable[nn.Parameter]) -> Tensor | float:
        """A zero to be added to a loss that some of the parameters have no part in, where ranks wait for every gradient."""
        # DDP averages whole buckets, so every parameter takes part in its backward
        return 0.0 * torch.stack([p.sum() for p in parameters]).sum() if self.world_size > 1 else 0.0

    def step(self, optimizer: LightningOptimizer, max_norm: float | None) -> float:
        """Clip to `max_norm`, step, clear the gradients; returns the norm before clipping."""
        if self.world_size > 1 and len(self._masters):
            self._average(optimizer)
        norm = clipped_norm(optimizer, max_norm)
        optimizer.step()
        optimizer.zero_grad()
        return float(norm)

    def _average(self, optimizer: LightningOptimizer) -> None:
        """Average gradients over ranks, as DDP does, but in float32."""
        sent = []
        for parameter in (p for group in optimizer.param_groups for p in group["params"]):
            # ranks send in the same order, whatever took part on each
            parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad / self.world_size
            sent.append(distributed.all_reduce(parameter.grad, async_op=True))
        for work in sent:
            work.wait()

    def discard(self, optimizer: LightningOptimizer) -> None:
        """Forget the gradients added since the last step."""
        optimizer.zero_grad()

    @contextmanager
    def frozen(self, optimizer: LightningOptimizer, groups: Iterable[int]) -> Iterator[None]:
        """Within, a step leaves the parameter groups of these numbers alone, and what the optimizer remembers of them."""
        inner = innermost(optimizer)
        chosen = [inner.param_groups[number] for number in groups]
        for group in chosen:
            group[FROZEN] = True
        # torch's optimizers pass over a parameter without a gradient, and so do those that ZeRO runs on its partitions
        handle = inner.register_step_pre_hook(_forget_frozen)
        try:
            yield
        finally:
            handle.remove()
            for group in chosen:
                del group[FROZEN]

    def total(self, values: Tensor) -> Tensor:
        """Sums over ranks of a vector of numbers that every rank gives."""
        if self.world_size == 1:
            return values
        summed: Tensor = self.trainer.strategy.reduce(values.to(self.module.device), reduce_op="sum")
        return summed.to(values.device)

    def largest(self, value: int) -> int:
        """The maximum over ranks."""
        return max(self.gather(value))

    def gather(self, value: T) -> list[T]:
        return gathered(value, self.world_size)


def clipped_norm(optimizer: LightningOptimizer, max_norm: float | None) -> Tensor:
    """Scale down the gradients that an optimizer is about to use; the norm that they had.

    Args:
        max_norm: of all gradients together; None: any.
    """
    parameters = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    return torch.nn.utils.clip_grad_norm_(parameters, max_norm if max_norm is not None else torch.inf)


def innermost(optimizer: LightningOptimizer) -> torch.optim.Optimizer:
    """The optimizer of torch inside what Lightning and the strategy wrap around it; a TypeError if it is none of torch's."""
    inner: object = optimizer
    while hasattr(inner, "optimizer"):
        inner = inner.optimizer
    if not isinstance(inner, torch.optim.Optimizer):
        raise TypeError(f"{type(inner).__name__} is no optimizer of torch, so it cannot leave a parameter group alone")
    return inner


def _forget_frozen(optimizer: torch.optim.Optimizer, *_: object) -> None:
    for group in optimizer.param_groups:
        if group.get(FROZEN):
            for parameter in group["params"]:
                parameter.grad = None


def module_of(strategy: Strategy) -> LightningModule:
    """The module, which a strategy has from the time its trainer connects them; a RuntimeError before."""
    module = strategy.lightning_module
    if module is None:
        raise RuntimeError(f"{type(strategy).__name__} has no module yet: it gets one when the trainer begins")
    return module


class SideGroup:
    """A process group of its own, since the ranks may reach a call here and one of the trainer's in any order."""

    def __init__(self, ranks: int) -> None:
        """Collective."""
        self._ranks = ranks
        # through the CPU, whatever devices the trainer's group connects
        self._group = torch.distributed.new_group(backend="gloo") if ranks > 1 else None

    def gather(self, value: T) -> list[T]:
        """As `Ranks.gather`."""
        return gathered(value, self._ranks, self._group)

    def total(self, values: Tensor) -> Tensor:
        """As `Ranks.total`, added in the order of ranks."""
        return torch.stack(self.gather(values)).sum(0)


def gathered(value: T, ranks: int, group: object = None) -> list[T]:
    """The values of all ranks, in the order of ranks; collective.

    Args:
        value: of this rank; it must be picklable where there are several.
        group: their process group; None: the trainer's.
    """
    if ranks == 1:
        return [value]
    everyone = [value] * ranks
    torch.distributed.all_gather_object(everyone, value, group=group)
    return everyone
