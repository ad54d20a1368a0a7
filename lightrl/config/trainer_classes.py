"""Short names of Lightning's own classes: loggers, callbacks, strategies; the error for a misspelt one lists the names that exist."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any

from lightrl.config.errors import ConfigError
from lightrl.config.plain_values import parsed
from lightrl.config.slots import classes_in
from lightrl.ranges import members_of
from lightrl.registry.closest import closest
from lightrl.registry.renamed import new_place


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
    _import_callbacks()
    bases = classes_in(annotation)
    classes = [cls for base in bases for cls in _subclasses(base)]
    known, places = sorted({cls.__name__ for cls in classes}), {f"{cls.__module__}.{cls.__qualname__}" for cls in classes}
    for name in _names(parsed(value, key)):
        if name not in places and (elsewhere := new_place(name, known)):
            raise ConfigError(key, f"there is no {name!r}.{elsewhere}", f"Given in: {source}")
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
    own = [cls for cls in below if not inspect.isabstract(cls) and not cls.__module__.startswith("lightrl.cli")]
    return own + [c for cls in below for c in _subclasses(cls)]


def _import_callbacks() -> None:
    """Make the short names of lightrl's callbacks known, to this check and to Lightning's parser."""
    import lightrl.callbacks

    for module in pkgutil.iter_modules(lightrl.callbacks.__path__, "lightrl.callbacks."):
        importlib.import_module(module.name)
