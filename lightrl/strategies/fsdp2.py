"""FSDP2: parameters, gradients and optimizer state sharded over the ranks, on CUDA and on CPU."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.core.optimizer import LightningOptimizer
from lightning.pytorch.strategies import ModelParallelStrategy
from lightning_utilities.core.apply_func import apply_to_collection
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor

from lightrl.ops.lazy import read
from lightrl.strategies.adapter import StrategyAdapter, clipped_norm, module_of
from lightrl.strategies.checkpoint_files import check_together, only_weights
from lightrl.strategies.checkpoint_io import refuse_execution, refuse_folder
from lightrl.strategies.checkpoint_weights import refuse_shapes
from lightrl.strategies.master_weights import cut_like


class FSDP2Strategy(ModelParallelStrategy):
    """Lightning's model parallel strategy with data parallelism alone: every rank has prompts of its own and a shard of the weights."""

    def __init__(self, process_group_backend: str | None = None, timeout: timedelta = timedelta(minutes=30)) -> None:
        """
        Args:
            process_group_backend: `nccl`, `gloo`, ...; null: what fits the device.
            timeout: after which a rank that waits for another one gives up.
        """
        # one file with the gathered weights: it resumes on any number of ranks, and is loaded without executing anything in it
        super().__init__(
            tensor_parallel_size=1, save_distributed_checkpoint=False, process_group_backend=process_group_backend, timeout=timeout
        )

    def setup_environment(self) -> None:
        """All ranks share the data-parallel dimension."""
        self._data_parallel_size = self.num_nodes * self.num_processes
        super().setup_environment()

    @property
    def distributed_sampler_kwargs(self) -> dict[str, Any]:
        """Every rank has data of its own; Lightning asks a mesh, which `lightrl check` has not."""
        return {"num_replicas": self.num_nodes * self.num_processes, "rank": self.global_rank}

    def load_checkpoint(self, checkpoint_path: str | os.PathLike[str], weights_only: bool | None = None) -> dict[str, Any]:
        """As Lightning does, after the file was checked; nothing in it is executed.

        Raises:
            CheckpointError: the file is damaged, or something else, or another strategy's.
        """
        refuse_execution(weights_only)
        path = Path(self.broadcast(checkpoint_path))
        refuse_folder(path, check_together(path))
        refuse_shapes(path, module_of(self))
        # Lightning knows the state of no other parameters than the module's own, and float32 copies are not among them
        optimizers, self.optimizers = self.optimizers, []
        try:
            with only_weights():
                checkpoint = super().load_checkpoint(path, weights_only=True)
        finally:
            self.optimizers = optimizers
        for optimizer, state in zip(optimizers, checkpoint.get("optimizer_states", []), strict=False):
            optimizer.load_state_dict(_cut(state, optimizer))
        return checkpoint

    def optimizer_state(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """The state of an optimizer, whole and on the first rank's CPU, as every strategy but DeepSpeed writes it; collective."""
        inner = optimizer.optimizer if isinstance(optimizer, LightningOptimizer) else optimizer

        def kept(value: Tensor) -> Tensor | None:
            whole = value.full_tensor() if isinstance(value, DTensor) else value
            return whole.cpu() if self.is_global_zero else None

        found: dict[str, Any] = apply_to_collection(inner.state_dict(), Tensor, kept)
        return found


class FSDP2Adapter(StrategyAdapter):
    """FSDP2: layers are gathered as they are used, and all of them at once for `gathered_weights`."""

    @property
    def cuts_weights(self) -> bool:
        return True

    @property
    def arrangement(self) -> str:
        return "fsdp2"

    @property
    def restarts(self) -> bool:
        return False

    def shard(self, *modules: nn.Module | None) -> None:
        strategy = self.trainer.strategy
        if not isinstance(strategy, ModelParallelStrategy):
            raise TypeError(f"FSDP2 cuts weights over the device mesh of its own strategy, and {type(strategy).__name__} has none")
        mesh, precision = strategy.device_mesh["data_parallel"], self._precision()
        for module in modules:
            if module is None:
                continue
            # the blocks of a transformer are what its longest list holds: one is read, cut, and let go before the next one is read
            lists = [list(m) for m in module.modules() if isinstance(m, nn.ModuleList)]
            for part in (*max(lists, key=len, default=[]), module):
                read(part)
                fully_shard(part, mesh=mesh, mp_policy=precision)
            if hasattr(module, "values"):
                register_fsdp_forward_method(module, "values")

    def _precision(self) -> MixedPrecisionPolicy:
        """Under `bf16-mixed` weights are gathered in the format that autocast would convert them to; gradients add up in float32."""
        precision = str(self.trainer.precision)
        computed = torch.bfloat16 if precision == "bf16-mixed" else None
        reduced = None if precision == "64-true" else torch.float32
        return MixedPrecisionPolicy(param_dtype=computed, reduce_dtype=reduced, cast_forward_inputs=computed is None)

    def backward(self, loss: Tensor, last: bool) -> None:
        for module in self._sharded():
            module.set_requires_gradient_sync(last)
            module.set_is_last_backward(last)
        self.module.manual_backward(loss * self.world_size)

    def zero_loss(self, parameters: Iterable[nn.Parameter]) -> Tensor | float:
        return 0.0

    def step(self, optimizer: LightningOptimizer, max_norm: float | None) -> float:
        norm = clipped_norm(optimizer, max_norm)
        optimizer.step()
        optimizer.zero_grad()
        return float(norm.full_tensor() if isinstance(norm, DTensor) else norm)

    @contextmanager
    def gathered_weights(self) -> Iterator[None]:
        self._find_roots()
        modules = [m for root in self._sharded() for m in root.modules() if isinstance(m, FSDPModule)]
        for module in modules:
            module.set_reshard_after_forward(False, recurse=False)
            module.unshard()
        try:
            yield
        finally:
            roots = self._sharded()
            for module in modules:
                module.reshard()
                module.set_reshard_after_forward(all(module is not root for root in roots), recurse=False)

    @contextmanager
    def gathered(self, module: nn.Module) -> Iterator[None]:
        self._find_roots()
        # the innermost comes last
        cut: list[Any] = [m for root in self._sharded() for m in root.modules() if isinstance(m, FSDPModule)]
        around = [m for m in cut if module in set(m.modules())]
        around[-1].unshard()
        try:
            yield
        finally:
            around[-1].reshard()

    def whole(self, tensor: Tensor) -> Tensor:
        return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor

    def _find_roots(self) -> None:
        for root in self._sharded():
            # else a layer that is used before its root takes itself for one
            root._get_fsdp_state()._lazy_init()

    def _sharded(self) -> list[Any]:
        return [child for child in self.module.children() if isinstance(child, FSDPModule)]


def _cut(state: dict[str, Any], optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """A whole state, of whose tensors each rank keeps its share, as it does of the parameters."""
    numbers = [number for group in state["param_groups"] for number in group["params"]]
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    of_number = dict(zip(numbers, parameters, strict=True))
    cut = {number: apply_to_collection(held, Tensor, cut_like, of_number[number]) for number, held in state["state"].items()}
    return state | {"state": cut}
