"""The callbacks that every run has; one that the config names in its place wins."""

from __future__ import annotations

import importlib

from lightning.pytorch import Callback
from lightning.pytorch.callbacks import ProgressBar

DEFAULT_CALLBACKS = [
    "lightrl.callbacks.progress.RolloutProgress",
    "lightrl.callbacks.sizes.SizesTable",
    "lightrl.callbacks.completions.CompletionsLog",
]
"""Import paths of callback classes that take no argument."""


def default_callbacks() -> list[Callback]:
    """One of each, new for every run."""
    classes = [path.rpartition(".") for path in DEFAULT_CALLBACKS]
    return [getattr(importlib.import_module(module), name)() for module, _, name in classes]


def beside(given: list[Callback], bar: bool) -> list[Callback]:
    """The default callbacks that go with those of a config: none of a class that it names itself, one progress bar or none.

    Args:
        given: callbacks of the config.
        bar: a progress bar is wanted.
    """
    bar = bar and not any(isinstance(callback, ProgressBar) for callback in given)
    others = [c for c in default_callbacks() if type(c) not in {type(callback) for callback in given}]
    return [c for c in others if bar or not isinstance(c, ProgressBar)]
