"""Which key was it? The part whose method refused is found in the traceback, and its key in the config."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any

from lightrl.config.choice import Choice
from lightrl.config.errors import ConfigError
from lightrl.config.resolve import Resolved
from lightrl.registry.classes import registry


def refusal(error: Exception, resolved: Resolved) -> ConfigError:
    """A short error with the key of the innermost part that was at work when it was raised.

    Args:
        error: raised by a constructor, or while the run was set up.
        resolved: the config that was being carried out.
    """
    keys = _keys(error, {"model": resolved.model, "data": resolved.data})
    stated = str(error).startswith(("model.", "data.", "trainer."))
    return ConfigError("" if stated else " or ".join(keys), str(error))


def raised_by_ours(error: BaseException) -> bool:
    """The innermost frame belongs to lightrl or to a plugin: the error was raised on purpose."""
    module = next((str(frame.tb_frame.f_globals.get("__name__", "")) for frame in _innermost_first(error.__traceback__)), "")
    plugins = {cls.__module__.partition(".")[0] for r in registry().records for classes in r.classes.values() for cls in classes}
    return module.partition(".")[0] in {"lightrl", *plugins}


def from_checkpoint(error: BaseException) -> bool:
    """The error came out of loading a checkpoint."""
    return any(
        frame.tb_frame.f_code.co_name in ("load_checkpoint", "on_load_checkpoint") for frame in _innermost_first(error.__traceback__)
    )


def was_training(error: BaseException) -> bool:
    """The error came out of a step, of training or evaluation: its traceback is worth seeing."""
    steps = ("training_step", "validation_step", "test_step", "predict_step")
    return any(frame.tb_frame.f_code.co_name in steps for frame in _innermost_first(error.__traceback__))


def _keys(error: Exception, sections: dict[str, Choice]) -> list[str]:
    chosen = [pair for name, choice in sections.items() for pair in _walk(choice, name)]
    for frame in _innermost_first(error.__traceback__):
        at_work = type(frame.tb_frame.f_locals.get("self"))
        if found := [(key, choice) for key, choice in chosen if choice.cls is at_work]:
            return [key for key, choice in found if _given_to(frame, choice)] or [key for key, _ in found]
    return []


def _given_to(frame: TracebackType, choice: Choice) -> bool:
    """What the method was called with is what the config gives this choice."""
    seen = frame.tb_frame.f_locals
    return all(seen[name] == value for name, value in choice.arguments.items() if name in seen and not isinstance(value, (Choice, dict)))


def _walk(value: Any, key: str) -> Iterator[tuple[str, Choice]]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _walk(part, f"{key}.{name}")
    if isinstance(value, Choice):
        yield key, value
        for name in value.takes:
            yield from _walk(value.value(name), f"{key}.{name}")


def _innermost_first(traceback: TracebackType | None) -> list[TracebackType]:
    frames = []
    while traceback is not None:
        frames.append(traceback)
        traceback = traceback.tb_next
    return frames[::-1]
