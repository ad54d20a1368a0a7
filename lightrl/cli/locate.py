"""Which key was it? Parts are built once more, innermost first, to find the one whose constructor refuses its arguments."""

from __future__ import annotations

import warnings
from typing import Any

from lightrl.cli.choice import Choice
from lightrl.cli.errors import ConfigError


def refuse_bad_parts(choice: Choice, key: str) -> None:
    """Build every part below a choice.

    Args:
        choice: whose arguments are built; itself it is not.
        key: where it stands.

    Raises:
        ConfigError: a constructor raised ValueError; names the innermost key.
    """
    for name in choice.takes:
        if name in choice.arguments or isinstance(choice.value(name), Choice):
            built(choice.value(name), f"{key}.{name}")


def built(value: Any, key: str) -> Any:
    """The object that a choice describes, or the value itself; optimizers wait for their parameters and stay descriptions.

    Raises:
        ConfigError: a constructor raised ValueError.
    """
    if isinstance(value, dict):
        return {name: built(part, f"{key}.{name}") for name, part in value.items()}
    if not isinstance(value, Choice) or value.slot.shape == "factory":
        return value
    arguments = {
        name: built(value.value(name), f"{key}.{name}") for name in value.takes if name in value.arguments or _holds_part(value, name)
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return value.cls(**arguments)
    except ValueError as error:
        raise ConfigError(key, str(error)) from error


def _holds_part(choice: Choice, name: str) -> bool:
    return isinstance(choice.value(name), Choice)
