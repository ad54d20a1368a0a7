"""A public name of lightrl that no config places in a slot: a base class, a callback, a type, a function, as its documentation has it."""

from __future__ import annotations

import inspect
import pkgutil
from importlib import import_module

from rich.console import Console

MODULES = ("lightrl", "lightrl.testing")
"""Modules whose `__all__` is public."""


def public_named(name: str) -> object | None:
    """The public class, function or callback with this name, whatever its letters; None if there is none."""
    places = {public.lower(): (module, public) for module in MODULES for public in import_module(module).__all__}
    if name.lower() in places:
        module, public = places[name.lower()]
        found: object = getattr(import_module(module), public)
        return found
    return _callbacks().get(name.lower())


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


def _callbacks() -> dict[str, type]:
    import lightrl.callbacks

    modules = [import_module(found.name) for found in pkgutil.iter_modules(lightrl.callbacks.__path__, "lightrl.callbacks.")]
    from lightning.pytorch import Callback

    return {
        name.lower(): value
        for module in modules
        for name, value in vars(module).items()
        if inspect.isclass(value) and issubclass(value, Callback) and value.__module__ == module.__name__
    }
