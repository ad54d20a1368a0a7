"""A public name of lightrl or of a plugin that is not registered: a base class, a type, a function, as its documentation has it."""

from __future__ import annotations

import inspect
from importlib import import_module

from rich.console import Console

from lightrl.registry.classes import registry


def public_named(name: str) -> object | None:
    """The class or function with this name, whatever its letters, in `__all__` of a package; None if there is none."""
    packages = dict.fromkeys(record.module.partition(".")[0] for record in registry().records if not record.error)
    for module in map(import_module, packages):
        for public in getattr(module, "__all__", ()):
            if public.lower() == name.lower():
                found: object = getattr(module, public)
                return found
    return None


def print_public(console: Console, thing: object) -> None:
    """Print signature and documentation, and what a class has to offer, a line each.

    Args:
        console: to print on.
        thing: a class, a function or a value.
    """
    name, module = getattr(thing, "__name__", repr(thing)), getattr(thing, "__module__", "lightrl")
    console.print(f"{name} ({module})\n\n{inspect.getdoc(thing) or ''}")
    if not inspect.isclass(thing):
        if callable(thing):
            console.print(f"\n{name}{inspect.signature(thing)}")
        return
    said = inspect.getdoc(vars(thing).get("__init__"))
    if said and not said.startswith("Initialize self."):
        console.print(f"\n{said}")
    members = {key: value for key, value in inspect.getmembers(thing) if not key.startswith("_") and _ours(value)}
    for key, value in members.items():
        summary = (inspect.getdoc(value) or "").partition("\n")[0]
        mark = "  to be written: " if key in getattr(thing, "__abstractmethods__", ()) else "  "
        console.print(f"{mark}{key}{inspect.signature(value) if inspect.isfunction(value) else ''}  {summary}")


def _ours(member: object) -> bool:
    function = member.fget if isinstance(member, property) else member
    return inspect.isfunction(function) and function.__module__.startswith("lightrl")
