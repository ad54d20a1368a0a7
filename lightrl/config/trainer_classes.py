"""Short names of classes in the trainer's arguments: Lightning's loggers, strategies and callbacks, and registered callbacks."""

from __future__ import annotations

import inspect
from typing import Any

from lightning.pytorch import Callback

from lightrl.config.errors import ConfigError
from lightrl.config.plain_values import parsed
from lightrl.config.slots import classes_in
from lightrl.ranges import members_of
from lightrl.registry.classes import registry
from lightrl.registry.closest import closest


def refuse_unknown_class(annotation: object, value: object, key: str, source: str) -> None:
    """Refuse a short name that no class of the argument's types has; import paths and other values are left alone.

    Args:
        annotation: the argument's type.
        value: of a file, or as typed.
        key: where it stands.
        source: where it was given.

    Raises:
        ConfigError: there is no such class.
    """
    if str in members_of(annotation):
        return
    bases = classes_in(annotation)
    known = sorted({cls.__name__ for base in bases for cls in _classes(base)})
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


def _classes(base: type[Any]) -> list[type[Any]]:
    """Lightning's classes and the registered ones; Lightning's parser knows both by their short names once they are imported."""
    registered = [cls for _, cls in registry().registered("callback")] if base is Callback else []
    return [cls for cls in _subclasses(base) if not cls.__module__.startswith("lightrl")] + registered


def _subclasses(base: type[Any]) -> list[type[Any]]:
    below = [cls for cls in base.__subclasses__() if not cls.__name__.startswith(("_", "LazyInstance_"))]
    own = [cls for cls in below if not inspect.isabstract(cls)]
    return own + [c for cls in below for c in _subclasses(cls)]
