"""The adapter of DeepSpeed: every micro-batch goes through its engine, which sums, clips and steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from lightning.pytorch.core.optimizer import LightningOptimizer
from torch import Tensor, nn

from lightrl.ops.lazy import LazyParameter, lazy_in
from lightrl.strategies.adapter import StrategyAdapter
from lightrl.strategies.deepspeed import ManualDeepSpeedStrategy
from lightrl.strategies.master_weights import Groups

T = TypeVar("T")
Loss = TypeVar("Loss")


class DeepSpeedAdapter(StrategyAdapter):
    """ZeRO: the engine sums, clips and steps; under stage 3 it also cuts the weights over the ranks."""

    @property
    def engine(self) -> Any:
        """The `DeepSpeedEngine`."""
        return self.trainer.strategy.model

    @property
    def cuts_weights(self) -> bool:
        return self._strategy.zero_stage_3

    @property
    def arrangement(self) -> str:
        return self._strategy.arrangement

    @property
    def restarts(self) -> bool:
        return False

    def shard(self, *modules: nn.Module | None) -> None:
        parts = [module for module in modules if module is not None]
        # the engine cuts weights itself, and has to have them whole for that
        if any(map(lazy_in, parts)):
            for module in parts:
                for buffer in module.buffers():
                    buffer.data = buffer.data.to(self._strategy.root_device)
            self._cut_one_by_one([parameter for module in parts for parameter in module.parameters()])

    def _cut_one_by_one(self, parameters: Iterable[nn.Parameter]) -> None:
        """Read a parameter, round it to the engine's dtype, and leave each rank its share, before the next one is read."""
        import deepspeed

        dtype = self._strategy.engine_dtype
        first: Any = None
        for parameter in parameters:
            if isinstance(parameter, LazyParameter):
                parameter.read()
            parameter.data = parameter.data.to(dtype)
            if first is None:
                first = parameter
                deepspeed.zero.Init(module=nn.ParameterList([parameter]), config_dict_or_path=self._strategy.settings, dtype=dtype)
            else:
                first.convert_to_zero_parameters(param_list=[parameter])

    @property
    def _strategy(self) -> ManualDeepSpeedStrategy:
        strategy = self.trainer.strategy
        if not isinstance(strategy, ManualDeepSpeedStrategy):
            raise TypeError(f"{type(strategy).__name__} is no DeepSpeed strategy of ours")
        return strategy

    def optimizer(self, make: Callable[[Groups], torch.optim.Optimizer], groups: Groups) -> torch.optim.Optimizer:
        # the engine has float32 copies of its own
        made = make(groups)
        if getattr(made, "takes_matrices", False):
            raise ValueError(f"model.optimizer: DeepSpeed cuts the matrices that {type(made).__name__} takes: use AdamW, ddp or fsdp2")
        return made

    def forward(self, loss_of: Callable[[T], Loss], micro: T) -> Loss:
        found: Loss = self.engine(loss_of, micro)
        return found

    def backward(self, loss: Tensor, last: bool) -> None:
        self.engine.set_gradient_accumulation_boundary(last)
        self.module.manual_backward(loss * self.world_size)

    def zero_loss(self, parameters: Iterable[nn.Parameter]) -> Tensor | float:
        return 0.0

    def step(self, optimizer: LightningOptimizer, max_norm: float | None) -> float:
        optimizer.step()
        self._forget_gradients()
        return float(self.engine.get_global_grad_norm())

    @contextmanager
    def frozen(self, optimizer: LightningOptimizer, groups: Iterable[int]) -> Iterator[None]:
        buffers = [(flat, flat.grad) for flat in self._flat_weights()]  # offloaded gradients are allocated once, for all steps
        with super().frozen(optimizer, groups):
            yield
        for flat, buffer in buffers:
            flat.grad = buffer

    def discard(self, optimizer: LightningOptimizer) -> None:
        # the gradients lie in buffers of the engine's own, which only a step empties
        with self.frozen(optimizer, range(len(optimizer.param_groups))):
            self.engine.step()
        self._forget_gradients()

    def _forget_gradients(self) -> None:
        """Zero what a parameter without a gradient in the next step would otherwise bring into its norm, and its update."""
        for buffer in (getattr(self.engine.optimizer, "grad_partitions_flat_buffer", None), *(flat.grad for flat in self._flat_weights())):
            if buffer is not None:
                buffer.zero_()

    def _flat_weights(self) -> list[Tensor]:
        inner: Any = self.engine.optimizer
        return getattr(inner, "fp32_partitioned_groups_flat", None) or getattr(inner, "single_partition_of_fp32_groups", [])

    @contextmanager
    def gathered_weights(self) -> Iterator[None]:
        offload = getattr(getattr(self.engine, "optimizer", None), "parameter_offload", None)
        if offload is None:
            yield
            return
        import deepspeed

        parameters: list[Any] = list(self.module.parameters())
        with deepspeed.zero.GatheredParameters(parameters):
            for parameter in parameters:
                parameter.ds_active_sub_modules.clear()
            for hook in offload.forward_hooks + offload.backward_hooks:
                hook.remove()
            offload.forward_hooks, offload.backward_hooks = [], []
            try:
                yield
            finally:
                offload._register_deepspeed_module(offload.module)

    @contextmanager
    def gathered(self, module: nn.Module) -> Iterator[None]:
        import deepspeed

        with deepspeed.zero.GatheredParameters([p for p in module.parameters() if hasattr(p, "ds_id")]):
            yield

    def whole(self, tensor: Tensor) -> Tensor:
        if not hasattr(tensor, "ds_id"):
            return tensor
        import deepspeed

        with deepspeed.zero.GatheredParameters([tensor]):
            return tensor.detach().clone()
