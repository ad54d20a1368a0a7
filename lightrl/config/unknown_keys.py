"""Keys that nothing takes are refused here: each error names the closest key that exists, and where the unknown one was given."""

from __future__ import annotations

from collections.abc import Collection

from lightrl.config.errors import ConfigError
from lightrl.config.other_libraries import key_here
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
