"""The format in which calls are a list in Python, `[add(a=1, b=2)]`. Nothing of it is executed: arguments are literals."""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Mapping

from lightrl.environments.tool_calls import ToolCall, shallow
from lightrl.prompt import JSON

START, END = "<|python_start|>", "<|python_end|>"


def python_calls(text: str) -> list[ToolCall]:
    """`[name(argument=value, ...), ...]`; arguments may also stand without their names, in order."""
    source = text.rpartition(START)[2].partition(END)[0].strip()
    try:
        with warnings.catch_warnings():
            # Python warns of escapes in strings that it does not know
            warnings.simplefilter("ignore")
            tree = ast.parse(source, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return [ToolCall(error=f"the list of calls is no Python: {str(error).partition(chr(10))[0]}")]
    if not isinstance(tree, ast.List) or not tree.elts:
        return [ToolCall(error="expected a list with at least one call")]
    return [_call(node) for node in tree.elts]


def python_text(name: str, arguments: Mapping[str, JSON]) -> str:
    """A call as Llama 4 writes it."""
    return f"[{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})]"


def _call(node: ast.expr) -> ToolCall:
    if not isinstance(node, ast.Call) or not isinstance(node.func, (ast.Name, ast.Attribute)):
        return ToolCall(error="expected each member of the list to be a call of a function by its name")
    name = ast.unparse(node.func)
    try:
        positional = tuple(_literal(argument) for argument in node.args)
        arguments = {keyword.arg: _literal(keyword.value) for keyword in node.keywords if keyword.arg is not None}
    except (ValueError, TypeError, RecursionError, MemoryError):
        return ToolCall(name, error=f"expected the arguments of {name!r} to be numbers, texts, True, False, None, lists or dicts of them")
    if len(arguments) < len(node.keywords):
        return ToolCall(name, error=f"expected the arguments of {name!r} one by one, without `**` and each once")
    return ToolCall(name, arguments, positional)


def _literal(node: ast.expr) -> JSON:
    return shallow(json.loads(json.dumps(ast.literal_eval(node), allow_nan=False)))
