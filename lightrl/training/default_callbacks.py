"""The callbacks that a module brings with it, so that a script is watched as a config is, and ended when it fails."""

from __future__ import annotations

from collections.abc import Sequence

from lightning.pytorch import Callback, LightningModule, Trainer

from lightrl.registry.classes import core


class NoDefaultCallbacks(Callback):
    """A Trainer that has this callback gets none of those that a module brings."""


def default_callbacks(given: Sequence[Callback]) -> list[Callback]:
    """One of each of the core's callbacks with `in_every_run = True`, but for those whose class is there already.

    A callback of another package is never added: only naming it changes a run.

    Args:
        given: of the Trainer.
    """
    if any(isinstance(callback, NoDefaultCallbacks) for callback in given):
        return []
    found = [cls for _, cls in core().registered("callback") if getattr(cls, "in_every_run", False)]
    return [cls() for cls in found if cls not in {type(callback) for callback in given}]


class CloseAfterFailure(Callback):
    """Calls the module's `teardown` when a run fails or is interrupted; Lightning does so only when it ends well."""

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """End processes, servers and threads; the error is raised again afterwards."""
        pl_module.teardown(trainer.state.fn or "fit")
