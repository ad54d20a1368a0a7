"""The form of an environment in TRL: which methods the policy calls, and what `reset` and a reward are given."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping

from lightrl import imported

RESET, REWARD = "reset", "get_reward"
"""Methods that the policy does not call."""
OF_REWARD = ("prompts", "completions", "environments")
"""A reward function may ask for these, and for every column of the data; each is a list with one member per episode."""


def environment_class(path: str) -> type:
    """The class of an import path; a ValueError if it is not of TRL's form."""
    found = imported(path)
    if not isinstance(found, type):
        raise ValueError(f"{path!r} is {type(found).__name__}: name the class itself, and what its constructor gets in `arguments`")
    if RESET not in _functions(found):
        raise ValueError(f"the class {path!r} has no method `reset`, which begins an episode: write `def reset(self, **kwargs)`")
    if not tool_methods(found):
        raise ValueError(f"the class {path!r} has no public method beside reset and get_reward, so there is nothing to call: write one")
    return found


def tool_methods(cls: type) -> tuple[str, ...]:
    """The methods that the policy may call: all public ones but `reset` and `get_reward`, in the order of the alphabet, as in TRL."""
    return tuple(name for name in _functions(cls) if name not in (RESET, REWARD) and not name.startswith("_"))


def gives_reward(cls: type) -> bool:
    """The class scores its episodes itself."""
    return REWARD in _functions(cls)


def _functions(cls: type) -> list[str]:
    return [name for name, _ in inspect.getmembers(cls, predicate=inspect.isfunction)]


def refuse_arguments(path: str, cls: type, arguments: Mapping[str, object]) -> None:
    """Raise a ValueError if a class cannot be built with these arguments."""
    try:
        inspect.signature(cls).bind(**arguments)
    except TypeError as error:
        takes = ", ".join(inspect.signature(cls).parameters) or "no arguments"
        raise ValueError(f"the constructor of {path!r} takes {takes}, and `arguments` has {dict(arguments)}: {error}") from error


def asked_by(function: Callable[..., object]) -> dict[str, bool]:
    """The arguments of `reset` or a reward function by name, each with whether it must be given."""
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p.default is p.empty for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.name != "self"}


def chosen(function: Callable[..., object], given: Mapping[str, object], only_named: tuple[str, ...] = ()) -> dict[str, object]:
    """The arguments that a function asks for; all if it takes any, but for those of `only_named`."""
    names = asked_by(function)
    every = any(p.kind is p.VAR_KEYWORD for p in inspect.signature(function).parameters.values())
    return {name: value for name, value in given.items() if name in names or (every and name not in only_named)}
