"""Formats in which each argument of a call stands between marks of its own, as a text."""

from __future__ import annotations

import json
from collections.abc import Mapping

from lightrl.environments.tool_calls import ToolCall, between
from lightrl.prompt import JSON


def qwen_coder_calls(text: str) -> list[ToolCall]:
    """`<function=name>` with a `<parameter=argument>` for each argument."""
    return [_qwen_coder_call(body) for body in between(text, "<function=", "</function>")]


def qwen_coder_text(name: str, arguments: Mapping[str, JSON]) -> str:
    """A call as Qwen3-Coder writes it."""
    inner = "".join(f"<parameter={key}>\n{_spelled(value)}\n</parameter>\n" for key, value in arguments.items())
    return f"<tool_call>\n<function={name}>\n{inner}</function>\n</tool_call>"


def glm_calls(text: str) -> list[ToolCall]:
    """`<tool_call>name` with an `<arg_key>` and an `<arg_value>` for each argument."""
    return [_glm_call(body) for body in between(text, "<tool_call>", "</tool_call>")]


def glm_text(name: str, arguments: Mapping[str, JSON]) -> str:
    """A call as GLM 4.5 writes it."""
    inner = "".join(f"<arg_key>{key}</arg_key>\n<arg_value>{_spelled(value)}</arg_value>\n" for key, value in arguments.items())
    return f"<tool_call>{name}\n{inner}</tool_call>"


def _qwen_coder_call(body: str) -> ToolCall:
    name, closed, inner = body.partition(">")
    if not closed:
        return ToolCall(error="expected `>` behind the name of the function")
    arguments = {}
    for part in between(inner, "<parameter=", "</parameter>"):
        key, closed, value = part.partition(">")
        if not closed:
            return ToolCall(name.strip(), error="expected `>` behind the name of a parameter")
        # the line breaks next to the marks are the format's
        arguments[key.strip()] = value.removeprefix("\n").removesuffix("\n")
    return ToolCall(name.strip(), arguments, spelled=True)


def _glm_call(body: str) -> ToolCall:
    name = body.partition("<arg_key>")[0].strip()
    keys = between(body, "<arg_key>", "</arg_key>")
    values = between(body, "<arg_value>", "</arg_value>")
    if len(keys) != len(values):
        return ToolCall(name, error=f"expected an <arg_value> for each <arg_key>, got {len(values)} for {len(keys)}")
    return ToolCall(name, {key.strip(): value for key, value in zip(keys, values, strict=True)}, spelled=True)


def _spelled(value: JSON) -> str:
    return value if isinstance(value, str) else json.dumps(value)
