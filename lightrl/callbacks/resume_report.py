"""A resumed run says what is not as it was, and goes on with its curves where the checkpoint ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import TensorBoardLogger
from rich.console import Console
from rich.table import Table
from tensorboard.compat.proto.event_pb2 import Event, SessionLog  # type: ignore[import-untyped]

from lightrl.callbacks.describe_run import flat
from lightrl.registry.classes import registry
from lightrl.registry.known_packages import CORE
from lightrl.training.reports.run_ledger import place_in_log
from lightrl.types import JSON
from lightrl.versions import installed_version

KEY = "provenance"
"""In a checkpoint: what the run was made of."""


class ResumeReport(Callback):
    """Keeps in every checkpoint what the run is made of, and prints what differs before a resumed one goes on.

    Differences are reported and allowed, but for other training prompts, which `PromptData` refuses.
    """

    in_every_run = True

    config: Mapping[str, Any] | None = None
    """The resolved config, where a command line made one."""
    _then: Mapping[str, Any] | None = None

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Add the provenance."""
        checkpoint[KEY] = self._now(trainer)

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Take the provenance."""
        self._then = checkpoint.get(KEY)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Print what differs, and let TensorBoard forget the points that will be drawn again; another optimizer is refused."""
        if self._then is None:
            return
        refuse_other_optimizer(trainer)
        if not trainer.is_global_zero:
            return
        if found := differences(self._then, self._now(trainer)):
            Console(stderr=True).print(table_of(found))
        step = place_in_log(trainer) + 1
        for logger in trainer.loggers:
            if isinstance(logger, TensorBoardLogger):
                writer = logger.experiment._get_file_writer()
                writer.add_event(Event(step=step, file_version="brain.Event:2"))
                writer.add_event(Event(step=step, session_log=SessionLog(status=SessionLog.START)))

    def _now(self, trainer: Trainer) -> dict[str, JSON]:
        """The provenance: one flat mapping of JSON values."""
        data: Any = getattr(trainer, "datamodule", None)
        order = data.state_dict().get("order") if data is not None else None
        found: dict[str, JSON] = {"ranks": trainer.world_size}
        found |= {f"version of {name}": installed_version(name) or ABSENT for name in PACKAGES}
        found |= {f"plugin {r.distribution}": r.version for r in registry().records if not r.error and r.distribution != CORE}
        found |= {f"data ({name})": value for name, value in (order or {}).items()}
        settings = flat({key: value for key, value in (self.config or {}).items() if key not in OF_THE_START}, passed_over="init_args")
        return found | {key: value for key, value in settings if key}


def refuse_other_optimizer(trainer: Trainer) -> None:
    """Refuse an optimizer that has been given the state of another one, by the settings that it lacks since."""
    for optimizer in trainer.optimizers:
        needed = getattr(optimizer, "defaults", {}).keys()
        if lacking := sorted({name for group in optimizer.param_groups for name in needed - group.keys()}):
            raise ValueError(
                f"model.optimizer: the checkpoint has the state of another optimizer than {type(optimizer).__name__}, without "
                f"{', '.join(lacking)}. Give the optimizer of that run, or begin anew with its weights: lightrl export writes them as a "
                "folder for PretrainedPolicy"
            )


def table_of(found: list[tuple[str, str, str]]) -> Table:
    """A row for each difference: key, then, now."""
    table = Table("key", "checkpoint", "now", title="Resumed with differences", title_justify="left", box=None)
    for row in found:
        table.add_row(*row)
    return table


PACKAGES = (CORE, "torch", "transformers", "lightning", "deepspeed", "peft")
"""Packages whose versions may change the numbers of a run."""
OF_THE_START = ("ckpt_path", "weights_only")
"""Keys of the config about the beginning of a run, which change nothing else of it."""
ABSENT = "-"
"""Shown for a key that one side does not have."""


def differences(then: Mapping[str, JSON], now: Mapping[str, JSON]) -> list[tuple[str, str, str]]:
    """Key, value then and value now of what differs, sorted; a plugin that is new changes nothing that the config does not say."""
    keys = [key for key in sorted({*then, *now}) if then.get(key, ABSENT) != now.get(key, ABSENT)]
    return [(key, str(then.get(key, ABSENT)), str(now.get(key, ABSENT))) for key in keys if key in then or not key.startswith("plugin ")]
