"""The module that a strategy trains."""

from __future__ import annotations

from lightning.pytorch import LightningModule
from lightning.pytorch.strategies import Strategy


def module_of(strategy: Strategy) -> LightningModule:
    """The module, which a strategy has from the time its trainer connects them.

    Raises:
        RuntimeError: it has none yet.
    """
    module = strategy.lightning_module
    if module is None:
        raise RuntimeError(f"{type(strategy).__name__} has no module yet: it gets one when the trainer begins")
    return module
