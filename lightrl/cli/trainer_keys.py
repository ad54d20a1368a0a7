"""The keys that are Lightning's: of the trainer, and of the verb; each is checked by name and, where it is plain, by type."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from lightrl.cli.errors import ConfigError, closest
from lightrl.cli.leaf import checked
from lightrl.cli.settings import Setting, Text
from lightrl.cli.signatures import Argument, arguments_of, classes_in, is_simple, members_of

_TYPES = {"seed_everything": bool | int, "ckpt_path": str | None}
_OURS = {"self", "model", "datamodule", "dataloaders", "train_dataloaders", "val_dataloaders"}


@functools.cache
def verb_keys(verb: str) -> tuple[str, ...]:
    """The top-level keys that Lightning takes for a verb."""
    from lightning.pytorch import Trainer

    parameters = inspect.signature(getattr(Trainer, verb)).parameters
    return ("seed_everything", *(name for name in parameters if name not in _OURS))


def check_trainer(content: dict[str, Any], setting: Setting, verb: str) -> None:
    """Check what a setting says of the trainer.

    Raises:
        ConfigError: an unknown argument, or a plain value of the wrong type.
    """
    for name, annotation in _TYPES.items():
        if name in content:
            checked(annotation, content[name], name, setting.source)
    trainer = content.get("trainer")
    if isinstance(trainer, Text) or ("trainer" in content and not isinstance(trainer, dict)):
        raise ConfigError(
            "trainer", "expected a mapping of the Trainer's arguments.", f"Type for example: lightrl {verb} --trainer.devices 1"
        )
    for name, value in (trainer or {}).items():
        takes = _arguments()
        if name not in takes:
            raise ConfigError(
                f"trainer.{name}", f"the Trainer has no argument {name!r}.{closest(name, takes)}", f"Given in: {setting.source}"
            )
        if name == "gradient_clip_val" and value is not None:
            raise ConfigError("trainer.gradient_clip_val", "the module clips its own gradients.", "Type: --model.max_grad_norm VALUE")
        annotation = takes[name].slot.annotation
        if not is_simple(annotation):
            _refuse_unknown_class(annotation, value, f"trainer.{name}", setting.source)
        elif not setting.append:
            checked(takes[name].slot.annotation, value, f"trainer.{name}", setting.source)


def _refuse_unknown_class(annotation: Any, value: Any, key: str, source: str) -> None:
    name = value.text if isinstance(value, Text) else value
    bases = classes_in(annotation)
    takes_text = str in members_of(annotation)
    if not isinstance(name, str) or takes_text or not name.isidentifier() or name.lower() in ("true", "false", "null", "none"):
        return
    known = sorted({cls.__name__ for base in bases for cls in _subclasses(base)})
    if name not in known:
        what = " or ".join(base.__name__ for base in bases).lower()
        raise ConfigError(key, f"no {what} is named {name!r}.{closest(name, known)} Known: {', '.join(known)}.", f"Given in: {source}")


def _subclasses(base: type[Any]) -> list[type[Any]]:
    below = [cls for cls in base.__subclasses__() if not cls.__name__.startswith("_")]
    return [cls for cls in below if not inspect.isabstract(cls)] + [c for cls in below for c in _subclasses(cls)]


@functools.cache
def _arguments() -> dict[str, Argument]:
    from lightning.pytorch import Trainer

    return dict(arguments_of(Trainer))
