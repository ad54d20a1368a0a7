"""From a name in the config to a class: through the registry for parts, through their libraries for others."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Mapping
from typing import Any

from lightrl.arguments import Slot
from lightrl.config.read.refusals import ConfigError
from lightrl.import_path import ImportPathError, imported
from lightrl.registry.classes import UnknownName, closest, registry

DATA = {"PromptData": "lightrl.data.prompt_data.PromptData"}
"""The short names of `data.class_path`; the first is the default."""
HOMES = {
    "torch.optim.optimizer.Optimizer": ("torch.optim",),
    "torch.optim.lr_scheduler.LRScheduler": ("torch.optim.lr_scheduler",),
    "torchmetrics.metric.Metric": ("torchmetrics.text", "lightrl.training.evaluating.metrics"),
}
"""Where the classes are that are typed by their short names, by their base class."""


def class_named(slot: Slot, name: str, key: str) -> type[Any]:
    """The class that a name means in a slot; a ConfigError if none has it, more than one has it, or it does not fit the slot."""
    if slot.kind is not None:
        try:
            cls = registry().resolve(slot.kind, name, key)
        except UnknownName as error:
            raise ConfigError("", str(error)) from error
    else:
        cls = _library_class(slot, name, key)
    if slot.base is not None and not issubclass(cls, slot.base):
        raise ConfigError(key, f"{cls.__name__} is no {slot.base.__name__}, which this slot wants.")
    if inspect.isabstract(cls):
        lacks = ", ".join(sorted(cls.__abstractmethods__))
        problem = f"{cls.__name__} is abstract, since it does not write {lacks}: name a class that does. Known: {known(slot)}."
        raise ConfigError(key, problem)
    return cls


def top_level_class(section: str, name: str | None) -> type[Any]:
    """The class of the model or of the data, by its short name or import path; None: the default."""
    if section == "model":
        return class_named(Slot("part", None, None, kind="module"), name or "PolicyOptimization", section)
    path = DATA.get(name or next(iter(DATA)), name or "")
    if "." not in path:
        raise ConfigError(section, f"no class is named {path!r}.{closest(path, DATA)} Known: {', '.join(DATA)}, or a full import path.")
    return _imported(path, section)


def known(slot: Slot) -> str:
    """The names a slot can hold, for messages."""
    if slot.kind is not None:
        return ", ".join(cls.__name__ for _, cls in registry().of_kind(slot.kind)) or "none"
    return ", ".join(_library_names(slot)) or "a full import path"


def _library_class(slot: Slot, name: str, key: str) -> type[Any]:
    if "." in name:
        return _imported(name, key)
    names = _library_names(slot)
    if name not in names:
        problem = f"no {slot.title} is named {name!r}.{closest(name, names)}"
        raise ConfigError(key, problem, f"Known: {', '.join(names)}, or a full import path.")
    return names[name]


def _library_names(slot: Slot) -> Mapping[str, type[Any]]:
    base: Any = slot.base
    return _library_classes(base) if base is not None else {}


@functools.cache
def _library_classes(base: type[Any]) -> dict[str, type[Any]]:
    homes = HOMES.get(f"{base.__module__}.{base.__name__}", ())
    found = {name: value for home in homes for name, value in vars(importlib.import_module(home)).items() if not name.startswith("_")}
    # no step of ours has the metric that ReduceLROnPlateau asks for
    classes = {n: c for n, c in found.items() if inspect.isclass(c) and issubclass(c, base) and c is not base and n != "ReduceLROnPlateau"}
    return dict(sorted(classes.items()))


def _imported(path: str, key: str) -> type[Any]:
    try:
        found = imported(path)
    except ImportPathError as error:
        raise ConfigError(key, str(error)) from error
    if not inspect.isclass(found):
        raise ConfigError(key, f"{path!r} is no class.")
    return found
