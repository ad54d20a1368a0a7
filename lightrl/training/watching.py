"""The callbacks that a module brings with it, so that a script is watched as a config is."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from lightning.pytorch import Callback

WATCHING = (
    "lightrl.callbacks.sizes_table.SizesTable",
    "lightrl.callbacks.stated_exceptions.StatedExceptions",
    "lightrl.callbacks.completions_log.CompletionsLog",
    "lightrl.callbacks.alarms.Alarms",
    "lightrl.callbacks.dashboard.Dashboard",
    "lightrl.callbacks.histograms.Histograms",
    "lightrl.callbacks.stop_all_ranks.StopAllRanks",
    "lightrl.callbacks.resume_report.ResumeReport",
    "lightrl.callbacks.run_summary.RunSummary",
)
"""Import paths of callback classes that take no argument; by name, since callbacks know modules and not the other way round."""


class Unwatched(Callback):
    """A Trainer that has this callback is left alone by those that a module brings."""


def watching(given: Sequence[Callback]) -> list[Callback]:
    """The callbacks that a module adds to those of its Trainer: none of a class that is there already.

    Args:
        given: of the Trainer.
    """
    if any(isinstance(callback, Unwatched) for callback in given):
        return []
    return [callback for callback in made(WATCHING) if type(callback) not in {type(other) for other in given}]


def made(paths: Sequence[str]) -> list[Callback]:
    """One of each class, new for every run."""
    classes = [path.rpartition(".") for path in paths]
    return [getattr(importlib.import_module(module), name)() for module, _, name in classes]
