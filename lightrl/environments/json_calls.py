"""Formats in which a call is written as JSON, with marks of the model's family around it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from lightrl.environments.tool_calls import ToolCall, between, json_call, read_json, spelled_call
from lightrl.prompt import JSON

BEGIN, SEPARATOR, END = "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"  # noqa: RUF001 - DeepSeek's own signs
KIMI_BEGIN, KIMI_ARGUMENTS, KIMI_END = "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"


def hermes_calls(text: str) -> list[ToolCall]:
    """`<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, each call in marks of its own."""
    return [_only_call(body) for body in between(text, "<tool_call>", "</tool_call>")]


def hermes_text(name: str, arguments: Mapping[str, JSON]) -> str:
    """A call as Hermes and Qwen write it."""
    return f"<tool_call>\n{_object(name, 'arguments', arguments)}\n</tool_call>"


def llama_calls(text: str) -> list[ToolCall]:
    """`{"name": ..., "parameters": {...}}`, several with `;` between them."""
    calls: list[ToolCall] = []
    rest = text.rpartition("<|python_tag|>")[2].strip()
    while rest:
        try:
            value, rest = read_json(rest)
        except ValueError as error:
            return [*calls, ToolCall(error=f"the call is no JSON: {error}")]
        calls.append(json_call(value))
        rest = rest.lstrip("; \n")
    return calls or [ToolCall(error="expected a call behind <|python_tag|>, got nothing")]


def llama_text(name: str, arguments: Mapping[str, JSON]) -> str:
    """A call as Llama 3.1 writes it."""
    return _object(name, "parameters", arguments)


def mistral_calls(text: str) -> list[ToolCall]:
    """`[TOOL_CALLS][{"name": ..., "arguments": {...}}, ...]`, or `[TOOL_CALLS]name[ARGS]{...}` once per call."""
    if "[ARGS]" in text:
        return [_mistral_named(part) for part in text.split("[TOOL_CALLS]")[1:]]
    body = text.partition("[TOOL_CALLS]")[2] if "[TOOL_CALLS]" in text else text
    try:
        value, _ = read_json(body)
    except ValueError as error:
        return [ToolCall(error=f"the list of calls is no JSON: {error}")]
    if not isinstance(value, list) or not value:
        return [ToolCall(error="expected a list with at least one call")]
    return [json_call(item) for item in value]


def mistral_text(name: str, arguments: Mapping[str, JSON]) -> str:
    """A call as Mistral writes it."""
    return f"[TOOL_CALLS][{_object(name, 'arguments', arguments)}]"


def deepseek_calls(text: str) -> list[ToolCall]:
    """`BEGIN name SEPARATOR {...} END`, or as before V3.1 `BEGIN function SEPARATOR name` and the arguments in a fence."""
    return [_deepseek_call(body) for body in between(text, BEGIN, END)]


def deepseek_text(name: str, arguments: Mapping[str, JSON]) -> str:
    """A call as DeepSeek V3.1 writes it."""
    return f"<｜tool▁calls▁begin｜>{BEGIN}{name}{SEPARATOR}{json.dumps(arguments)}{END}<｜tool▁calls▁end｜>"  # noqa: RUF001


def kimi_calls(text: str) -> list[ToolCall]:
    """`functions.name:0`, a mark and the arguments, within marks."""
    calls = []
    for body in between(text, KIMI_BEGIN, KIMI_END):
        named, _, arguments = body.partition(KIMI_ARGUMENTS)
        calls.append(spelled_call(named.strip().removeprefix("functions.").rpartition(":")[0] or named.strip(), arguments))
    return calls


def kimi_text(name: str, arguments: Mapping[str, JSON]) -> str:
    """A call as Kimi K2 writes it."""
    call = f"{KIMI_BEGIN}functions.{name}:0{KIMI_ARGUMENTS}{json.dumps(arguments)}{KIMI_END}"
    return f"<|tool_calls_section_begin|>{call}<|tool_calls_section_end|>"


def _only_call(body: str) -> ToolCall:
    try:
        value, rest = read_json(body)
    except ValueError as error:
        return ToolCall(error=f"the call is no JSON: {error}")
    return json_call(value) if not rest.strip() else ToolCall(error=f"expected nothing behind the call, got {rest.strip()[:60]!r}")


def _mistral_named(part: str) -> ToolCall:
    named, _, arguments = part.partition("[ARGS]")
    return spelled_call(named.partition("[CALL_ID]")[0].strip(), arguments)


def _deepseek_call(body: str) -> ToolCall:
    first, _, second = body.partition(SEPARATOR)
    if second.lstrip().startswith("{") or "\n" not in second:
        return spelled_call(first.strip(), second)
    name, _, fenced = second.partition("\n")
    return spelled_call(name.strip(), fenced.strip().removeprefix("```json").removesuffix("```"))


def _object(name: str, key: str, arguments: Mapping[str, JSON]) -> str:
    return json.dumps({"name": name, key: dict(arguments)})
