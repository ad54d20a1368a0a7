"""A run that fails ends what it has started, too."""

from __future__ import annotations

from lightning.pytorch import Callback, LightningModule, Trainer


class CloseAfterFailure(Callback):
    """Calls the module's `teardown` when a run fails or is interrupted; Lightning does so only when it ends well."""

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """End processes, servers and threads; the error is raised again afterwards."""
        pl_module.teardown(trainer.state.fn or "fit")
