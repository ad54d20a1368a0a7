"""The keys that are Lightning's: of the trainer, and of the verb; each is checked by name and, where it is plain, by type."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from lightrl.config.errors import ConfigError
from lightrl.config.plain_values import checked, parsed
from lightrl.config.settings import Item, Setting, Text
from lightrl.config.signatures import Argument, arguments_of
from lightrl.config.slots import is_simple
from lightrl.config.trainer_classes import refuse_unknown_class
from lightrl.config.trainer_ranges import OF_THE_VERB, RANGES
from lightrl.config.unknown_keys import refuse_unknown_argument

OF_TORCH = ("seed_everything", "float32_matmul_precision")
"""Keys beside `trainer` of settings of the whole process, whatever the verb."""
GIVEN_BY_US = {"self", "model", "datamodule", "dataloaders", "train_dataloaders", "val_dataloaders"}


@functools.cache
def verb_keys(verb: str) -> tuple[str, ...]:
    """The top-level keys that Lightning takes for a verb."""
    from lightning.pytorch import Trainer

    parameters = inspect.signature(getattr(Trainer, verb)).parameters
    return (*OF_TORCH, *(name for name in parameters if name not in GIVEN_BY_US))


def check_trainer(content: dict[str, Any], setting: Setting, verb: str) -> None:
    """Check what a setting says of the trainer.

    Raises:
        ConfigError: an unknown argument, or a plain value of the wrong type.
    """
    for name, annotation in OF_THE_VERB.items():
        if name in content:
            checked(annotation, content[name], name, setting.source)
    trainer = content.get("trainer")
    if isinstance(trainer, Text) or ("trainer" in content and not isinstance(trainer, dict)):
        raise ConfigError(
            "trainer", "expected a mapping of the Trainer's arguments.", f"Type for example: lightrl {verb} --trainer.devices 1"
        )
    if not trainer:
        return
    # it loads Lightning, which light verbs do without
    from lightrl.training.trainer_options import refusal_of

    for name, value in trainer.items():
        takes = _arguments()
        refuse_unknown_argument("the Trainer", name, takes, "trainer", setting.source)
        wanted = RANGES.get(name, takes[name].slot.annotation)
        if not is_simple(wanted):
            refuse_unknown_class(wanted, value, f"trainer.{name}", setting.source)
        elif not isinstance(value, Item):
            checked(wanted, value, f"trainer.{name}", setting.source)
        if (refusal := refusal_of(name, parsed(value, f"trainer.{name}"))) is not None:
            raise ConfigError(f"trainer.{name}", str(refusal), f"Given in: {setting.source}")


@functools.cache
def _arguments() -> dict[str, Argument]:
    from lightning.pytorch import Trainer

    return dict(arguments_of(Trainer))
