"""Errors that answer an option of TRL, verl or OpenRLHF with the key that does the same here."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from importlib.resources import files

import yaml

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
