"""From choices to objects, the same way for every verb; each object is remembered with its key, so that its errors name the key."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from lightrl.config.choice import Choice
from lightrl.config.error_key import from_checkpoint, objects_at_work, refused_by_callback, refused_on_purpose
from lightrl.config.errors import ConfigError
from lightrl.config.plain_values import as_object
from lightrl.config.slots import Slot
from lightrl.parts.faulty_part import FaultyPartError


class Builder:
    """Builds the objects of a config, the parts in an object's arguments first."""

    def __init__(self) -> None:
        self._built: dict[int, tuple[str, object]] = {}
        """By id: the key of each object, and the object, so that its id stays its own."""

    def build(self, choice: Choice, key: str) -> Any:
        """The object that a choice describes.

        Of a factory (an optimizer) it is the class with these arguments, which is called with the ones that come later.

        Args:
            choice: with all required arguments.
            key: where it stands in the config, for errors.

        Raises:
            ConfigError: its class, or that of a part in its arguments, refuses them.
        """
        takes = choice.takes
        values = {name: choice.value(name) for name in takes if name in choice.arguments or not takes[name].required}
        # a plain default is left to the class; a part that is a default is built anew, since no two objects may share it
        given = {name: value for name, value in values.items() if name in choice.arguments or isinstance(value, Choice)}
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
        """Within, a refusal before the first step becomes a short error with the key of the part that was at work.

        Args:
            key: named where no part of the config was at work.

        Raises:
            ConfigError: something was refused.
        """
        try:
            yield
        except Exception as error:
            if not refused_on_purpose(error):
                raise
            if from_checkpoint(error) and _rank():
                # every rank reads the same and refuses it; one says so
                raise SystemExit(2) from error
            stated = isinstance(error, FaultyPartError) or str(error).startswith(("model.", "data.", "trainer."))
            place = "trainer.callbacks" if refused_by_callback(error) else self._key_of(error) or key
            raise ConfigError("" if stated else place, str(error)) from error

    def _key_of(self, error: Exception) -> str:
        """The key of the innermost object of the config whose method was being called."""
        known = (self._built[id(thing)][0] for thing in objects_at_work(error) if id(thing) in self._built)
        return next(known, "")


def _rank() -> int:
    """Of this process; 0 before there are several."""
    from lightning.fabric.utilities.rank_zero import rank_zero_only

    return getattr(rank_zero_only, "rank", None) or 0
