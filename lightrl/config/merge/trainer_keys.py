"""The keys that are Lightning's: of the trainer, and of the verb; each is checked by name and, where it is plain, by type.

`rollouts` is `trainer.max_epochs`, since one epoch of policy optimisation is one rollout.
"""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le
from lightning.pytorch import Callback
from pydantic import StringConstraints

from lightrl.arguments import Argument, arguments_of, classes_in, is_simple
from lightrl.config.describe.plain_values import checked, parsed
from lightrl.config.read.refusals import ConfigError, check_argument
from lightrl.config.read.settings import Item, Setting, Text
from lightrl.ranges import Count, Natural, Seed, Share, members_of
from lightrl.registry.classes import closest, registry

Batches = Count | Annotated[float, Gt(0), Le(1)] | None
HeldOutBatches = Natural | Share | None
End = Literal[-1] | Count
"""-1: never."""

Precision = Literal["32-true", "bf16-mixed", "bf16-true", "64-true", "32", "bf16", "64", "transformer-engine", 32, 64] | None
Float16 = Literal["16-mixed", "16-true", "16", "fp16", "float16", "transformer-engine-float16", 16]
"""What a person may type for it; it is refused with the reason."""

Devices = Annotated[str, StringConstraints(pattern=r"^(auto|-1|\d{1,3}|\d+,(\d+(,\d+)*)?)$")]
"""As a text: auto, a number or a list with commas. Lightning makes a list as long as the number, however large."""

RANGES: dict[str, object] = {
    "precision": Precision | Float16,
    "devices": Literal[-1] | Annotated[int, Ge(1), Le(1024)] | Devices | list[int],
    "num_nodes": Annotated[int, Ge(1), Le(10_000)],
    "max_epochs": End | None,
    "min_epochs": Natural | None,
    "max_steps": End,
    "min_steps": Natural | None,
    "limit_train_batches": Batches,
    "limit_val_batches": HeldOutBatches,
    "limit_test_batches": HeldOutBatches,
    "limit_predict_batches": HeldOutBatches,
    "overfit_batches": Natural | Share,
    "val_check_interval": Count | Annotated[float, Gt(0), Le(1)] | str | timedelta | dict[str, Any] | None,
    "check_val_every_n_epoch": Count | None,
    "num_sanity_val_steps": Literal[-1] | Natural | None,
    "log_every_n_steps": Natural | None,
    "fast_dev_run": bool | Natural,
    "reload_dataloaders_every_n_epochs": Natural,
}
"""By argument, the type with its range in place of Lightning's."""
OF_THE_VERB: dict[str, object] = {
    "seed_everything": bool | Seed,
    "float32_matmul_precision": Literal["highest", "high", "medium"],
    "ckpt_path": str | None,
}
"""The same for the keys beside `trainer`."""


def check_trainer(content: dict[str, Any], setting: Setting, verb: str) -> None:
    """Refuse an unknown argument of the Trainer, or a plain value of the wrong type."""
    for name, annotation in OF_THE_VERB.items():
        if name in content:
            checked(annotation, content[name], name, setting.source)
    trainer = content.get("trainer")
    if isinstance(trainer, Text) or ("trainer" in content and not isinstance(trainer, dict)):
        example = f"Type for example: lightrl {verb} --trainer.devices 1"
        raise ConfigError("trainer", "expected a mapping of the Trainer's arguments.", example)
    if not trainer:
        return
    # it loads Lightning, which light verbs do without
    from lightrl.training.setup.trainer_options import refusal_of

    for name, value in trainer.items():
        takes = _arguments()
        check_argument("the Trainer", name, takes, "trainer", setting.source)
        wanted = RANGES.get(name, takes[name].slot.annotation)
        if not is_simple(wanted):
            check_class_name(wanted, value, f"trainer.{name}", setting.source)
        elif not isinstance(value, Item):
            checked(wanted, value, f"trainer.{name}", setting.source)
        if (refusal := refusal_of(name, parsed(value, f"trainer.{name}"))) is not None:
            raise ConfigError(f"trainer.{name}", str(refusal), f"Given in: {setting.source}")


@functools.cache
def _arguments() -> dict[str, Argument]:
    from lightning.pytorch import Trainer

    return dict(arguments_of(Trainer))


def check_class_name(annotation: object, value: object, key: str, source: str) -> None:
    """Refuse a short name that no class of the argument's types has; import paths and other values are left alone."""
    if str in members_of(annotation):
        return
    bases = classes_in(annotation)
    # Lightning's parser knows its own classes and registered ones by their short names, once they are imported
    own = [cls for base in bases for cls in _subclasses(base) if not cls.__module__.startswith("lightrl")]
    registered = [cls for _, cls in registry().registered("callback")] if Callback in bases else []
    known = sorted({cls.__name__ for cls in (*own, *registered)})
    for name in _names(parsed(value, key)):
        if name.isidentifier() and name not in known:
            what = " or ".join(base.__name__ for base in bases).lower()
            raise ConfigError(key, f"no {what} is named {name!r}.{closest(name, known)} Known: {', '.join(known)}.", f"Given in: {source}")


def _names(value: object) -> list[str]:
    """The class names in a value: bare, as class_path, or in a list of either."""
    if isinstance(value, list):
        return [name for item in value for name in _names(item)]
    if isinstance(value, dict):
        value = value.get("class_path")
    return [value] if isinstance(value, str) else []


def _subclasses(base: type[Any]) -> list[type[Any]]:
    below = [cls for cls in base.__subclasses__() if not cls.__name__.startswith(("_", "LazyInstance_"))]
    return [cls for cls in below if not inspect.isabstract(cls)] + [c for cls in below for c in _subclasses(cls)]


LIMITS = ("max_epochs", "max_steps", "max_time", "fast_dev_run")
"""Trainer arguments that say when a run ends."""


@dataclass
class Rollouts:
    """The settings that decide the length of the run."""

    number: int | None = None
    """`rollouts`, the last that was given."""
    limits: dict[str, Any] = field(default_factory=dict)
    """Of the trainer's `LIMITS`, those that were given."""

    def read(self, content: dict[str, Any], setting: Setting) -> None:
        """Take note of one setting."""
        if "rollouts" in content:
            self.number = checked(int, content["rollouts"], "rollouts", setting.source)
            if self.number is not None and self.number < 1:
                raise ConfigError("rollouts", f"expected 1 or more, got {self.number}.", f"Given in: {setting.source}")
        trainer = content.get("trainer")
        if isinstance(trainer, dict):
            for name in LIMITS:
                if name in trainer:
                    value = trainer[name]
                    self.limits[name] = checked(int | None, value, "trainer.max_epochs", setting.source) if name == "max_epochs" else value
        epochs = self.limits.get("max_epochs")
        if None not in (self.number, epochs) and self.number != epochs:
            problem = f"{self.number} rollouts and trainer.max_epochs {epochs} contradict each other: one epoch is one rollout."
            raise ConfigError("rollouts", problem, "Give only one of them: --rollouts N.")

    def check_module(self, module: str) -> None:
        """Refuse a number of rollouts for a module that learns from given rows."""
        if self.number is not None:
            hint = "Type: --trainer.max_steps N for optimizer steps, or --trainer.max_epochs N for passes over the data."
            raise ConfigError("rollouts", f"{module} learns from given rows and makes none.", hint)

    @property
    def ends(self) -> bool:
        """The end of the run was stated in one way or another."""
        return self.number is not None or any(value is not None for value in self.limits.values())

    @property
    def epochs(self) -> int | None:
        """Epochs of the run, if they were given."""
        return self.number if self.number is not None else self.limits.get("max_epochs")

    @property
    def words(self) -> list[str]:
        """As words for Lightning's parser."""
        return [] if self.number is None else [f"--trainer.max_epochs={self.number}"]
