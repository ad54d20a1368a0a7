"""Reading a traceback: which objects were at work, and whether the error was raised on purpose before the first step."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import TracebackType

from lightrl.parts.faulty_part import FaultyPartError
from lightrl.registry.classes import registry

STEPS = ("training_step", "validation_step", "test_step", "predict_step")
"""Methods that learn or evaluate; an error out of them keeps its traceback."""
LOADS = ("load_checkpoint", "on_load_checkpoint")
"""Methods that read a checkpoint."""


def refused_on_purpose(error: Exception) -> bool:
    """True if Lightning, lightrl or a plugin has refused something before the first step, or at any time: the core a part's result, a
    callback of Lightning's the number that it was to watch.

    Any other error is a fault of the program.
    """
    if isinstance(error, FaultyPartError) or refused_by_callback(error):
        return True
    if not isinstance(error, (ValueError, *refusals_of_lightning())):
        return False
    return not _came_out_of(error, STEPS) and (isinstance(error, refusals_of_lightning()) or _raised_by_ours(error))


def refusals_of_lightning() -> tuple[type[Exception], ...]:
    """The class of Lightning's own refusals; none where Lightning is not loaded, since loading it takes seconds."""
    if "lightning.fabric" not in sys.modules:
        return ()
    from lightning.fabric.utilities.exceptions import MisconfigurationException

    return (MisconfigurationException,)


def from_checkpoint(error: Exception) -> bool:
    """True if the error came out of loading a checkpoint."""
    return _came_out_of(error, LOADS)


def objects_at_work(error: Exception) -> Iterator[object]:
    """The objects whose methods were being called when the error was raised, the innermost first."""
    for frame in _innermost_first(error.__traceback__):
        if "self" in frame.tb_frame.f_locals:
            yield frame.tb_frame.f_locals["self"]


def refused_by_callback(error: Exception) -> bool:
    """True if one of Lightning's callbacks has raised the error, as EarlyStopping does where nobody logs the number that it is to watch."""
    return isinstance(error, RuntimeError) and _origin(error).startswith("lightning.pytorch.callbacks.")


def _origin(error: Exception) -> str:
    """The module of the innermost frame."""
    return next((str(frame.tb_frame.f_globals.get("__name__", "")) for frame in _innermost_first(error.__traceback__)), "")


def _raised_by_ours(error: Exception) -> bool:
    """True if the innermost frame belongs to lightrl, to Lightning or to a plugin."""
    plugins = {package for package, _ in registry().places}
    return _origin(error).partition(".")[0] in {"lightrl", "lightning", *plugins}


def _came_out_of(error: Exception, methods: tuple[str, ...]) -> bool:
    return any(frame.tb_frame.f_code.co_name in methods for frame in _innermost_first(error.__traceback__))


def _innermost_first(traceback: TracebackType | None) -> list[TracebackType]:
    frames = []
    while traceback is not None:
        frames.append(traceback)
        traceback = traceback.tb_next
    return frames[::-1]
