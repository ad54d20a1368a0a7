"""Keys that nothing takes are refused here: each error names the closest key that exists, and where the unknown one was given."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping
from importlib.resources import files

import yaml

from lightrl.config.errors import ConfigError
from lightrl.registry.closest import closest

LISTED = 30
"""The most arguments that an error lists."""


def refuse_unknown_key(key: str, value: object, known: Collection[str], source: str) -> None:
    """Refuse a key at the top of a config that nothing reads.

    Args:
        key: as given.
        value: what stands there.
        known: all keys that there are.
        source: the file, or `command line`.

    Raises:
        ConfigError: it is none of them.
    """
    if key not in known:
        raise ConfigError(
            key, f"there is no such key.{key_here(key, value) or closest(key, known)} Keys: {', '.join(known)}.", f"Given in: {source}"
        )


def refuse_unknown_argument(owner: str, name: str, takes: Collection[str], key: str, source: str) -> None:
    """Refuse an argument that a class does not take.

    Args:
        owner: what a message calls the class.
        name: of the argument, as given.
        takes: the arguments that there are.
        key: where the class stands in the config.
        source: the file, or `command line`.

    Raises:
        ConfigError: it is none of them.
    """
    if name in takes:
        return
    what = f"{owner} has no argument {name!r}.{key_here(f'{key}.{name}') or closest(name, takes)}"
    # the Trainer has some sixty
    listed = f" It takes: {', '.join(takes) or 'none'}." if len(takes) <= LISTED else ""
    raise ConfigError(f"{key}.{name}", f"{what}{listed}", f"Given in: {source}")


DOTTED = "verl"
"""The library whose options are keys with dots."""


@functools.cache
def libraries() -> dict[str, dict[str, str]]:
    """By library: its options, and the keys that do the same here."""
    text = (files("lightrl.config") / "other_libraries.yaml").read_text(encoding="utf-8")
    found: dict[str, dict[str, str]] = yaml.safe_load(text)
    return found


def key_here(key: str, value: object = None) -> str:
    """The end of a message about an unknown key that is an option of another library; empty if it is none.

    A key that ends like an option of TRL or OpenRLHF, such as `model.algorithm.beta`, is taken for it.

    Args:
        key: with its dots.
        value: its mapping, in which verl's options may be.
    """
    for path in _leaves(key, value):
        for library, options in libraries().items():
            option = path if library == DOTTED or path in options else path.rpartition(".")[2]
            if option in options and options[option] != path:
                return f" {library}'s {option!r}: here set {options[option]}."
    return ""


def _leaves(key: str, value: object) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _leaves(f"{key}.{name}", inner)
    else:
        yield key
