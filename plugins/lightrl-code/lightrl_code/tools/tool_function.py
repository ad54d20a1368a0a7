"""Tools by their import paths: functions, callable objects, and classes whose public methods are tools; and their JSON schemas."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import get_type_hints

from lightrl import imported
from lightrl_code.tools.tool_calls import JSON


@dataclass(frozen=True)
class ToolFunction:
    """One function that the policy may call."""

    name: str
    """The policy calls it so."""
    path: str
    """It is imported from here."""
    function: Callable[..., object]
    """A method of a stateful class is not bound here: each episode has an instance of its own."""
    owner: type | None = None
    """The stateful class."""

    @functools.cached_property
    def parameters(self) -> dict[str, bool]:
        """Its arguments, each with whether it must be given."""
        found = inspect.signature(self.function).parameters.values()
        return {p.name: p.default is p.empty for p in found if p.name != "self"}

    @functools.cached_property
    def hints(self) -> dict[str, object]:
        """The types of its arguments."""
        return get_type_hints(self.function)


@functools.cache
def tool_functions(path: str, methods: tuple[str, ...] | None = None, awaited: bool = False) -> tuple[ToolFunction, ...]:
    """The tools of an import path: a callable by names of arguments, or public methods of a class; a ValueError if it is neither.

    Args:
        methods: those of a class that are tools, in order; None: all public ones.
        awaited: the caller awaits what async ones return.
    """
    found = imported(path)
    if isinstance(found, type):
        names = _public_methods(found) if methods is None else methods
        tools = [ToolFunction(name, f"{path}.{name}", getattr(found, name), found) for name in names]
        if not tools:
            raise ValueError(f"the class {path!r} has no public method, so it has no tool: write one, with types and a docstring")
    elif callable(found):
        function = found if inspect.isroutine(found) else found.__call__
        tools = [ToolFunction(path.rpartition(".")[2], path, function)]
    else:
        raise ValueError(f"{path!r} is {type(found).__name__}, which cannot be called: name a function")
    for tool in tools:
        _check_tool(tool, awaited)
    return tuple(tools)


def schema_of(tool: ToolFunction) -> dict[str, JSON]:
    """The description of a tool for a chat template; a ValueError says what its types or docstring lack, and the rule."""
    from transformers.utils import get_json_schema
    from transformers.utils.chat_template_utils import DocstringParsingException, TypeHintParsingException

    try:
        schema: dict[str, JSON] = get_json_schema(tool.function)
    except (TypeHintParsingException, DocstringParsingException, NameError, ValueError) as error:
        raise ValueError(
            f"the tool {tool.path!r} cannot be described to the policy: {error}. transformers makes the description: every argument needs "
            "a type (int, float, str, bool, None, Literal, an Enum, or list, tuple, dict and unions of them), and the docstring a first "
            "sentence and a section `Args:` with a line `name: what it is` for every argument"
        ) from error
    schema["function"]["name"] = tool.name
    return schema


def constructor_arguments(owner: type) -> dict[str, bool] | None:
    """The arguments of a stateful class by name, each with whether it must be given; None if it takes any."""
    parameters = inspect.signature(owner).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return {p.name: p.default is p.empty for p in parameters if p.kind is not p.VAR_POSITIONAL}


def choices_of(schema: Mapping[str, JSON], argument: str) -> list[JSON] | None:
    """The values that an argument may have; None if its type is the only limit."""
    found: list[JSON] | None = schema["function"]["parameters"]["properties"][argument].get("enum")
    return found


def _public_methods(cls: type) -> list[str]:
    callables = (staticmethod, classmethod)
    every = {name: value for base in reversed(cls.__mro__) for name, value in vars(base).items()}
    public = {name: value for name, value in every.items() if not name.startswith("_")}
    return [name for name, value in public.items() if inspect.isfunction(value) or isinstance(value, callables)]


def _check_tool(tool: ToolFunction, awaited: bool) -> None:
    try:
        parameters = list(inspect.signature(tool.function).parameters.values())
    except (ValueError, TypeError) as error:
        raise ValueError(f"the tool {tool.path!r} does not say its arguments ({error}): write a Python function that calls it") from error
    if inspect.iscoroutinefunction(tool.function) and not awaited:
        raise ValueError(f"the tool {tool.path!r} is async, and tools are called one after the other: write a plain function")
    if tool.owner is None and parameters and parameters[0].name == "self":
        raise ValueError(f"the tool {tool.path!r} needs an instance of its class: name the class, and all its public methods are tools")
    for p in parameters:
        if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise ValueError(f"the tool {tool.path!r} is called with arguments by name, and {p} has none: declare each argument")
