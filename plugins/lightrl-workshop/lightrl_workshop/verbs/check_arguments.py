"""The arguments that `lightrl plugins check --arguments` gives to classes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from lightrl.config import Choice, ConfigError, Merger, Slot, closest, parse_yaml, read_config
from lightrl.kinds import KINDS
from lightrl.registry import PluginRecord

OPTION = "--arguments"
"""The option that gives them."""
Given = Mapping[str, Mapping[str, object]]
"""By class name, the values of arguments by name."""


def read_arguments(text: str | None) -> Given:
    """Read the option: YAML, or a file with it.

    Raises:
        ConfigError: it is no mapping of class names to arguments.
    """
    if text is None:
        return {}
    try:
        value = read_config(text) if Path(text).suffix in (".yaml", ".yml") else parse_yaml(text)
        shown = json.dumps(value)
    except (yaml.YAMLError, TypeError) as error:
        raise ConfigError(OPTION, f"bad YAML: {str(error).splitlines()[0]}") from error
    if not isinstance(value, dict) or not all(isinstance(arguments, dict) for arguments in value.values()):
        raise ConfigError(OPTION, f"expected {{Class: {{argument: value}}}}, got {shown}.", "Type for example: '{MyPart: {length: 9}}'")
    return value


def refuse_unknown(records: list[PluginRecord], given: Given) -> None:
    """Refuse arguments that nothing would read.

    Raises:
        ConfigError: a class that is not checked, or an argument that it does not have or that has another type.
    """
    checked = {cls.__name__: (kind, cls) for r in records for kind, classes in r.classes.items() for cls in classes}
    for name, arguments in given.items():
        if name not in checked:
            raise ConfigError(OPTION, f"no class {name!r} is checked.{closest(name, checked)} There are: {', '.join(checked)}.")
        choice_of(*checked[name], arguments)


def choice_of(kind: str, cls: type[Any], arguments: Mapping[str, object]) -> Choice:
    """A class of a kind with these arguments.

    Raises:
        ConfigError: it does not take them.
    """
    base = KINDS[kind].base_class
    choice = Choice(cls, Slot("part", base, base, kind))
    merger = Merger()
    merger.arguments(choice, dict(arguments), cls.__name__, OPTION)
    merger.problems.check()
    return choice
