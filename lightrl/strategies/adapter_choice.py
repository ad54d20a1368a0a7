"""Which adapter a strategy needs, and the familiar strategy names with our strategies behind them."""

from __future__ import annotations

import atexit
from functools import cache

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.strategies import DDPStrategy, DeepSpeedStrategy, SingleDeviceStrategy, StrategyRegistry
from torch import distributed

from lightrl.strategies.adapter import StrategyAdapter
from lightrl.strategies.deepspeed import ManualDeepSpeedStrategy
from lightrl.strategies.deepspeed_adapter import DeepSpeedAdapter
from lightrl.strategies.fsdp2 import FSDP2Adapter, FSDP2Strategy


def adapter_for(trainer: Trainer, module: LightningModule) -> StrategyAdapter:
    """The adapter of the trainer's strategy; a ValueError for one whose gradients would silently be wrong."""
    _destroy_groups_at_exit()
    strategy = trainer.strategy
    if isinstance(strategy, ManualDeepSpeedStrategy):
        return DeepSpeedAdapter(trainer, module)
    if isinstance(strategy, FSDP2Strategy):
        return FSDP2Adapter(trainer, module)
    if isinstance(strategy, (SingleDeviceStrategy, DDPStrategy)) and not isinstance(strategy, DeepSpeedStrategy):
        return StrategyAdapter(trainer, module)
    raise ValueError(
        f"trainer.strategy: {type(strategy).__name__} is not supported: its gradients would silently be wrong when several "
        f"micro-batches make one optimizer step. Use auto (one device) or one of {', '.join(strategy_names())}; with settings of your own, "
        "class_path: ManualDeepSpeedStrategy, which takes what Lightning's DeepSpeedStrategy takes, or class_path: FSDP2Strategy"
    )


def strategy_names() -> list[str]:
    """The names of strategies whose gradients are right."""
    return [name for name in StrategyRegistry if name.startswith(("ddp", "deepspeed", "fsdp2"))]


def register_strategies() -> None:
    """Put our strategies behind Lightning's names, with the settings that Lightning gives those names, and add `fsdp2`."""
    for name in [name for name in StrategyRegistry if name.startswith("deepspeed")]:
        known = StrategyRegistry[name]
        StrategyRegistry.register(name, ManualDeepSpeedStrategy, description=known["description"], override=True, **known["init_params"])
    StrategyRegistry.register("fsdp2", FSDP2Strategy, description="Parameters, gradients and optimizer sharded by FSDP2", override=True)


@cache
def _destroy_groups_at_exit() -> None:
    """Have process groups end before the interpreter does; once for a process."""

    def destroy() -> None:
        # a thread of gloo that still has a tensor when Python has ended aborts the process, and Lightning sees to NCCL alone
        if distributed.is_available() and distributed.is_initialized():
            distributed.destroy_process_group()

    atexit.register(destroy)
