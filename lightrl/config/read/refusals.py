"""Refusals of a request: three lines at most and no traceback, with the key, the names that exist and an example to type.

A key that nothing takes is refused here, with the closest one that exists, or with what does the same as an option of another library.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files

import yaml

from lightrl.registry.classes import closest

LINES = 3
"""The most lines that an error takes."""


class ConfigError(Exception):
    """Something in the config or on the command line cannot be carried out."""

    def __init__(self, key: str, problem: str, *hints: str) -> None:
        """
        Args:
            key: its place, for example `model.algorithm.clip`; empty if the problem names it.
            problem: the value that is wrong, the type that was expected, the names that exist.
            *hints: further lines: the source of the value, an example to type.
        """
        self.key, self.problem, self.hints = key, problem, hints
        super().__init__("\n".join(self.lines()))

    def lines(self) -> list[str]:
        """The message, cut to `LINES` lines; the others are counted."""
        first = f"{self.key}: {self.problem}" if self.key else self.problem
        lines = [line.strip() for text in (first, *self.hints) for line in text.splitlines() if line.strip()]
        if len(lines) <= LINES:
            return lines
        return [*lines[: LINES - 1], f"{lines[LINES - 1]} (and {len(lines) - LINES} more lines)"]


class Problems:
    """The refusals of a request, collected, so that one message can name all keys that are wrong."""

    def __init__(self) -> None:
        self.found: list[tuple[str, ConfigError]] = []
        """Each with the key at which it was found, in order."""

    @contextmanager
    def collected(self, key: str) -> Iterator[None]:
        """Within, a refusal is kept, at this key unless it names one itself, and what is within ends."""
        try:
            yield
        except ConfigError as error:
            self.found.append((error.key or key, error))

    def check(self) -> None:
        """Raise the first refusal, with the keys of the others; those above or below a key that is wrong may only follow from it."""
        if not self.found:
            return
        keys: list[str] = []
        for key, _ in self.found:
            if not any(f"{key}.".startswith(f"{one}.") or f"{one}.".startswith(f"{key}.") for one in keys):
                keys.append(key)
        first = self.found[0][1]
        line, newline, rest = first.problem.partition("\n")
        also = f" Wrong too: {', '.join(keys[1:])}." if keys[1:] else ""
        raise ConfigError(first.key, f"{line}{also}{newline}{rest}", *first.hints) from first


def report(error: ConfigError) -> int:
    """Print the error to stderr and return the exit status."""
    sys.stderr.write("\n".join(error.lines()) + "\n")
    return 2


LISTED = 30
"""The most arguments that an error lists; the Trainer has some sixty."""


def check_key(key: str, value: object, known: Collection[str], source: str) -> None:
    """Refuse a key at the top of a config that nothing reads."""
    if key not in known:
        problem = f"there is no such key.{key_here(key, value) or closest(key, known)} Keys: {', '.join(known)}."
        raise ConfigError(key, problem, f"Given in: {source}")


def check_argument(owner: str, name: str, takes: Collection[str], key: str, source: str) -> None:
    """Refuse an argument that a class does not take."""
    if name in takes:
        return
    what = f"{owner} has no argument {name!r}.{key_here(f'{key}.{name}') or closest(str(name), takes)}"
    listed = f" It takes: {', '.join(takes) or 'none'}." if len(takes) <= LISTED else ""
    raise ConfigError(f"{key}.{name}", f"{what}{listed}", f"Given in: {source}")


@functools.cache
def libraries() -> dict[str, dict[str, str]]:
    """By library: its options, and the keys that do the same here."""
    found: dict[str, dict[str, str]] = yaml.safe_load((files("lightrl.config.read") / "other_libraries.yaml").read_text(encoding="utf-8"))
    return found


def key_here(key: str, value: object = None) -> str:
    """The end of a message about an unknown key, or one in its mapping, that is an option of another library; empty if it is none.

    A key that ends like an option of TRL or OpenRLHF, such as `model.algorithm.beta`, is taken for it.
    """
    for path in _leaves(key, value):
        for library, options in libraries().items():
            # the options of verl are keys with dots
            option = path if library == "verl" or path in options else path.rpartition(".")[2]
            if option in options and options[option] != path:
                return f" {library}'s {option!r}: here set {options[option]}."
    return ""


def _leaves(key: str, value: object) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _leaves(f"{key}.{name}", inner)
    else:
        yield key
