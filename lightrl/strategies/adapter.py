"""What differs between Lightning's strategies, in four questions: backward, step, whole weights, sums over ranks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.strategies import DDPStrategy, SingleDeviceStrategy
from torch import Tensor


class StrategyAdapter:
    """Single device and DDP: whole weights on every rank, gradients averaged over ranks in the last backward."""

    def __init__(self, trainer: Trainer, module: LightningModule) -> None:
        """
        Args:
            trainer: whose strategy is adapted.
            module: whose gradients are meant.
        """
        self.trainer, self.module = trainer, module

    @property
    def world_size(self) -> int:
        """Ranks that share the optimizer step."""
        return self.trainer.world_size

    def backward(self, loss: Tensor, last: bool) -> None:
        """Add the gradient of one micro-batch's share of the loss.

        Args:
            loss: this rank's share of the sum over all ranks; a scalar.
            last: no further micro-batch follows in this optimizer step.
        """
        strategy: Any = self.trainer.strategy
        later = hasattr(strategy, "block_backward_sync") and not last
        with strategy.block_backward_sync() if later else nullcontext():
            # strategies average over ranks, and a share is to be added
            self.module.manual_backward(loss * self.world_size)

    def step(self, optimizer: Any, max_norm: float | None) -> float:
        """Clip to `max_norm`, step, clear the gradients; returns the norm before clipping."""
        parameters = [p for p in self.module.parameters() if p.grad is not None]
        norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm if max_norm is not None else torch.inf)
        optimizer.step()
        optimizer.zero_grad()
        return float(norm)

    def discard(self, optimizer: Any) -> None:
        """Forget the gradients added since the last step."""
        optimizer.zero_grad()

    @contextmanager
    def whole_weights(self) -> Iterator[None]:
        """Within, every parameter of the module is whole on this rank and no hook stands in the way of generating."""
        yield

    def total(self, values: Tensor) -> Tensor:
        """Sums over ranks of a vector of numbers that every rank gives."""
        if self.world_size == 1:
            return values
        return self.trainer.strategy.reduce(values.to(self.module.device), reduce_op="sum").to(values.device)  # type: ignore[union-attr]

    def largest(self, value: int) -> int:
        """The maximum over ranks."""
        numbers: list[int] = self.gather(value)
        return max(numbers)

    def gather(self, value: Any) -> list[Any]:
        """What every rank gave, in the order of ranks."""
        if self.world_size == 1:
            return [value]
        everyone: list[Any] = [None] * self.world_size
        torch.distributed.all_gather_object(everyone, value)
        return everyone


def adapter_for(trainer: Trainer, module: LightningModule) -> StrategyAdapter:
    """The adapter of the trainer's strategy.

    Raises:
        ValueError: the strategy is one whose gradients would silently be wrong.
    """
    strategy = trainer.strategy
    if isinstance(strategy, (SingleDeviceStrategy, DDPStrategy)) and "deepspeed" not in type(strategy).__name__.lower():
        return StrategyAdapter(trainer, module)
    raise ValueError(
        f"trainer.strategy: {type(strategy).__name__} is not supported yet: its gradients would silently be wrong when several "
        "micro-batches make one optimizer step. Use auto (one device) or ddp"
    )
