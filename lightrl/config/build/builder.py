"""From choices to objects, the same way for every verb; each object is remembered with its key, so that its errors name the key.

Which object was at work, and whether an error was raised on purpose before the first step, is read from the traceback.
"""

from __future__ import annotations

import functools
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from lightrl.arguments import Slot
from lightrl.config.describe.choice import Choice
from lightrl.config.describe.plain_values import as_object
from lightrl.config.read.refusals import ConfigError
from lightrl.parts.base import FaultyPartError
from lightrl.registry.classes import registry


class Builder:
    """Builds the objects of a config, the parts in an object's arguments first."""

    def __init__(self) -> None:
        self._built: dict[int, tuple[str, object]] = {}
        """By id: the key of each object, and the object, so that its id stays its own."""

    def build(self, choice: Choice, key: str) -> Any:
        """The object that a choice with all required arguments describes; its errors name the key.

        Of a factory (an optimizer) it is the class with these arguments, which is called with the ones that come later.

        Raises:
            ConfigError: its class, or that of a part in its arguments, refuses them.
        """
        takes = choice.takes
        values = {name: choice.value(name) for name in takes if name in choice.arguments or not takes[name].required}
        # a plain default is left to the class; a part that is a default is built anew, since no two objects may share it
        anew = {name for name, value in values.items() if isinstance(value, Choice) or takes[name].slot.shape == "parts"}
        given = {name: value for name, value in values.items() if name in choice.arguments or name in anew}
        arguments = {name: self.value(value, takes[name].slot, f"{key}.{name}") for name, value in given.items()}
        if choice.slot.shape == "factory":
            make: Callable[..., object] = choice.cls
            return functools.partial(make, **arguments)
        with self.refusals(key):
            built = choice.cls(**arguments)
        self._built[id(built)] = key, built
        return built

    def value(self, value: object, slot: Slot, key: str) -> Any:
        """A value of a config as an object: a choice, several by name, or a plain value."""
        if isinstance(value, Choice):
            return self.build(value, key)
        if slot.shape == "parts" and isinstance(value, dict):
            return {name: self.value(part, slot.item, f"{key}.{name}") for name, part in value.items()}
        with self.refusals(key):
            return as_object(value, slot.annotation)

    @contextmanager
    def refusals(self, key: str = "") -> Iterator[None]:
        """Within, a refusal before the first step becomes a ConfigError with the key of the part at work, or else with this one."""
        try:
            yield
        except Exception as error:
            if not refused_on_purpose(error):
                raise
            if _came_out_of(error, ("load_checkpoint", "on_load_checkpoint")) and _rank():
                # every rank reads the same checkpoint and refuses it; one says so
                raise SystemExit(2) from error
            stated = isinstance(error, FaultyPartError) or str(error).startswith(("model.", "data.", "trainer."))
            place = "trainer.callbacks" if refused_by_callback(error) else self._key_of(error) or key
            raise ConfigError("" if stated else place, str(error)) from error

    def _key_of(self, error: Exception) -> str:
        """The key of the innermost object of the config whose method was being called."""
        at_work = (id(frame.f_locals["self"]) for frame in _innermost_first(error) if "self" in frame.f_locals)
        return next((self._built[thing][0] for thing in at_work if thing in self._built), "")


def _rank() -> int:
    """Of this process; 0 before there are several."""
    from lightning.fabric.utilities.rank_zero import rank_zero_only

    return getattr(rank_zero_only, "rank", None) or 0


STEPS = ("training_step", "validation_step", "test_step", "predict_step")
"""Methods that learn or evaluate; an error out of them keeps its traceback."""


def refused_on_purpose(error: Exception) -> bool:
    """True if Lightning, lightrl or a plugin has refused something before the first step, or at any time: the core a part's result, a
    callback of Lightning's the number that it was to watch.

    Any other error is a fault of the program.
    """
    if isinstance(error, FaultyPartError) or refused_by_callback(error):
        return True
    if not isinstance(error, (ValueError, *refusals_of_lightning())):
        return False
    plugins = {package for package, _ in registry().places}
    ours = _origin(error).partition(".")[0] in {"lightrl", "lightning", *plugins}
    return not _came_out_of(error, STEPS) and (isinstance(error, refusals_of_lightning()) or ours)


def refusals_of_lightning() -> tuple[type[Exception], ...]:
    """The class of Lightning's own refusals; none where Lightning is not loaded, since loading it takes seconds."""
    if "lightning.fabric" not in sys.modules:
        return ()
    from lightning.fabric.utilities.exceptions import MisconfigurationException

    return (MisconfigurationException,)


def refused_by_callback(error: Exception) -> bool:
    """True if a callback of Lightning's has raised the error, as EarlyStopping does where the number that it watches is not logged."""
    return isinstance(error, RuntimeError) and _origin(error).startswith("lightning.pytorch.callbacks.")


def _origin(error: Exception) -> str:
    """The module of the innermost frame."""
    return next((str(frame.f_globals.get("__name__", "")) for frame in _innermost_first(error)), "")


def _came_out_of(error: Exception, methods: tuple[str, ...]) -> bool:
    return any(frame.f_code.co_name in methods for frame in _innermost_first(error))


def _innermost_first(error: Exception) -> list[FrameType]:
    return [frame for frame, _ in traceback.walk_tb(error.__traceback__)][::-1]
