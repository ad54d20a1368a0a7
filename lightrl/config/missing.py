"""Required arguments that a config leaves out: all of them in one message, with an example to type."""

from __future__ import annotations

from collections.abc import Iterator

from lightrl.config.choice import Choice
from lightrl.config.class_lookup import known
from lightrl.config.errors import ConfigError
from lightrl.config.run_length import Rollouts
from lightrl.config.slots import Slot, type_name


def refuse_missing(model: Choice, data: Choice, rollouts: Rollouts | None) -> None:
    """Refuse a config that leaves out a required argument.

    Args:
        model: with its parts.
        data: with its parts.
        rollouts: the length of the run, if the verb needs one.

    Raises:
        ConfigError: names every missing key and, for the first, the classes that exist and an example to type.
    """
    missing = [*_missing(model, "model"), *_missing(data, "data")]
    rollouts_needed = rollouts is not None and not rollouts.given and "algorithm" in model.takes
    if not missing and rollouts_needed:
        raise ConfigError("rollouts", "not given: how many rollouts should the run have?", "Type for example: --rollouts 100")
    _refuse(missing, ["rollouts"] if rollouts_needed else [])


def refuse_missing_below(value: object, key: str) -> None:
    """Refuse a part of a config that leaves out a required argument.

    Args:
        value: a choice, or several by name.
        key: where it stands.

    Raises:
        ConfigError: as `refuse_missing`.
    """
    _refuse(list(_missing(value, key)), [])


def _refuse(missing: list[tuple[str, Slot]], others: list[str]) -> None:
    if missing:
        key, slot = missing[0]
        also = [k for k, _ in missing[1:]] + others
        raise ConfigError(key, f"not given, and there is no default.{_also(also)}", *_what_to_type(key, slot))


def _missing(value: object, key: str) -> Iterator[tuple[str, Slot]]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _missing(part, f"{key}.{name}")
    if isinstance(value, Choice):
        for name, argument in value.takes.items():
            if (argument.required and name not in value.arguments) or (
                argument.required and argument.slot.shape == "parts" and not value.arguments[name]
            ):
                yield f"{key}.{name}", argument.slot
            else:
                yield from _missing(value.value(name), f"{key}.{name}")


def _also(keys: list[str]) -> str:
    return f" Missing too: {', '.join(keys)}." if keys else ""


def _what_to_type(key: str, slot: Slot) -> tuple[str, ...]:
    if slot.shape == "plain":
        return (f"Type: --{key} VALUE, where VALUE is {type_name(slot.annotation)}",)
    names = known(slot)
    example = f"--{key}{'.NAME' if slot.shape == 'parts' else ''} {names.split(', ')[0]}"
    function = " (or the import path of a function)" if slot.kind == "reward" else ""
    return f"Known: {names}{function}.", f"Type for example: {example}"
