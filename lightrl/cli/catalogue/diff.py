"""`lightrl diff A B`: the differences between two algorithms, or two config files, down to the argument."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lightrl.config.describe.choice import Choice
    from lightrl.config.merge.resolve import Resolved

ABSENT = "-"
"""Shown where one side has no such key."""


def diff(words: list[str]) -> int:
    """Carry out `lightrl diff`: two files are compared key by key; of a name and a file, the algorithms are compared."""
    parser = argparse.ArgumentParser(prog="lightrl diff", description=__doc__)
    for side in ("a", "b"):
        parser.add_argument(side, metavar=side.upper(), help="the name of an algorithm, or a config file")
    options = parser.parse_args(words)
    from rich.console import Console

    from lightrl.config.describe.documentation import folding_table

    names = (options.a, options.b)
    (title_a, a), (title_b, b) = (_config(n) if all(map(_is_file, names)) else _algorithm(n) for n in names)
    table = folding_table("key", title_a, title_b)
    table.columns[0].no_wrap = False
    for row in differences(a, b):
        table.add_row(*row)
    console = Console(markup=False, highlight=False)
    console.print(table if table.row_count else f"{title_a} and {title_b} do not differ: every part and every argument is the same.")
    return 0


def differences(a: dict[str, str], b: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    """Key and both values, for every key whose values differ; keys of the second alone follow the other keys of their part."""
    for key in _merged(list(a), list(b)):
        pair = a.get(key, ABSENT), b.get(key, ABSENT)
        if pair[0] != pair[1]:
            yield key, *pair


def _merged(a: list[str], b: list[str]) -> list[str]:
    """All keys; a key of the second alone follows the key before it there."""
    keys = list(a)
    for i, key in enumerate(b):
        if key not in a:
            keys.insert(keys.index(b[i - 1]) + 1 if i else 0, key)
    return keys


def _is_file(name: str) -> bool:
    from lightrl.registry.installed_configs import installed_configs

    installed = {spelled for config in installed_configs() for spelled in (config.name, f"{config.distribution}:{config.name}")}
    return Path(name).suffix in (".yaml", ".yml") or Path(name).is_file() or name in installed


def _algorithm(name: str) -> tuple[str, dict[str, str]]:
    """A title, and every slot and argument of an algorithm that is named or that a file names."""
    from lightrl.config.describe.algorithms import algorithm_named
    from lightrl.config.describe.choice import Choice
    from lightrl.config.read.refusals import ConfigError

    if not _is_file(name):
        return name, dict(_below(algorithm_named(name), ""))
    model = _resolved(name)[0].model
    chosen = model.value("algorithm") if "algorithm" in model.takes else None
    if not isinstance(chosen, Choice):
        raise ConfigError("model.algorithm", f"{name} names no algorithm to compare.", "Type for example: lightrl diff A.yaml B.yaml")
    return f"{chosen.cls.__name__} ({name})", dict(_below(chosen, ""))


def _config(path: str) -> tuple[str, dict[str, str]]:
    """The path, and every key of a resolved config."""
    from lightrl.config.read.source_keys import SECTIONS

    resolved, content = _resolved(path)
    found = dict(_below({key: value for key, value in content.items() if key not in SECTIONS}, ""))
    for section, choice in (("model", resolved.model), ("data", resolved.data)):
        found |= {section: choice.cls.__name__} | dict(_below(choice, section))
    return path, found


def _resolved(path: str) -> tuple[Resolved, dict[str, Any]]:
    from lightrl.config.merge.resolve import resolve
    from lightrl.config.read.settings import Request, Setting
    from lightrl.config.read.yaml_files import find_config, read_config

    content = read_config(str(find_config(path)))
    return resolve("fit", Request([Setting((), content, path)]), complete=False), content


def _below(holder: Choice | dict[str, Any], key: str) -> Iterator[tuple[str, str]]:
    """Every value below a choice or a mapping as text: a part gives its class, and then its arguments."""
    from lightrl.config.describe.choice import Choice, shown

    for name in holder if isinstance(holder, dict) else holder.takes:
        place = f"{key}.{name}" if key else name
        if not isinstance(holder, dict) and holder.takes[name].required and name not in holder.arguments:
            yield place, "?"
            continue
        value = holder[name] if isinstance(holder, dict) else holder.value(name)
        if isinstance(value, Choice):
            yield place, value.cls.__name__
        if isinstance(value, (Choice, dict)):
            yield from _below(value, place)
        else:
            yield place, shown(value)
