"""The formats in which the families of models write calls, by name, and how a text tells its own."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from lightrl import without_thoughts
from lightrl_code.tools.tool_calls import JSON, ToolCall, between, json_call, read_json, shallow, spelled_call

BEGIN, SEPARATOR, END = "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"  # noqa: RUF001 - DeepSeek's own signs
KIMI_BEGIN, KIMI_ARGUMENTS, KIMI_END = "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"


def hermes_calls(text: str) -> list[ToolCall]:
    """`<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, each call in marks of its own, which an argument may contain."""
    calls = []
    while "<tool_call>" in text:
        call, text = _first_call(text.partition("<tool_call>")[2])
        calls.append(call)
    return calls


def hermes_text(name: str, arguments: Mapping[str, JSON]) -> str:
    """A call as Hermes and Qwen write it."""
    return f"<tool_call>\n{_object('arguments', name, arguments)}\n</tool_call>"


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
    return f"[TOOL_CALLS][{_object('arguments', name, arguments)}]"


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


def _first_call(text: str) -> tuple[ToolCall, str]:
    try:
        value, rest = read_json(text)
    except ValueError as error:
        return ToolCall(error=f"the call is no JSON: {error}"), text
    behind = re.split("</?tool_call>", rest, maxsplit=1)[0].strip()
    return ToolCall(error=f"expected nothing behind the call, got {behind[:60]!r}") if behind else json_call(value), rest


def _mistral_named(part: str) -> ToolCall:
    named, _, arguments = part.partition("[ARGS]")
    return spelled_call(named.partition("[CALL_ID]")[0].strip(), arguments)


def _deepseek_call(body: str) -> ToolCall:
    first, _, second = body.partition(SEPARATOR)
    if second.lstrip().startswith("{") or "\n" not in second:
        return spelled_call(first.strip(), second)
    name, _, fenced = second.partition("\n")
    return spelled_call(name.strip(), fenced.strip().removeprefix("```json").removesuffix("```"))


def _object(key: str, name: str, arguments: Mapping[str, JSON]) -> str:
    return json.dumps({"name": name, key: dict(arguments)})


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


PYTHON_START, PYTHON_END = "<|python_start|>", "<|python_end|>"


def python_calls(text: str) -> list[ToolCall]:
    """`[name(argument=value, ...), ...]`; arguments may also stand without their names, in order."""
    source = text.rpartition(PYTHON_START)[2].partition(PYTHON_END)[0].strip()
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


AUTO = "auto"


@dataclass(frozen=True)
class CallFormat:
    """A way to write calls."""

    sign: str
    """A regular expression that is found in a text with a call, be it well written or not."""
    calls: Callable[[str], list[ToolCall]]
    """The calls in a text that has the sign, in order; never raises."""
    text: Callable[[str, Mapping[str, JSON]], str]
    """A call of this name with these arguments."""
    told_by: str | None = None
    """A sign for where no format is named, if answers might have the other one as well; None: they do not."""


# one whose sign is also found in texts of another format stands behind it
FORMATS = {
    "deepseek": CallFormat(re.escape(BEGIN), deepseek_calls, deepseek_text),
    "kimi": CallFormat(re.escape(KIMI_BEGIN), kimi_calls, kimi_text),
    "qwen_coder": CallFormat("<function=", qwen_coder_calls, qwen_coder_text),
    "glm": CallFormat(r"<tool_call>\s*[\w.-]+\s*(<arg_key>|</tool_call>)", glm_calls, glm_text),
    "hermes": CallFormat("<tool_call>", hermes_calls, hermes_text),
    "mistral": CallFormat(r'\[TOOL_CALLS\]|^\s*\[\s*\{[^{}]*"arguments"\s*:', mistral_calls, mistral_text),
    "llama": CallFormat(r'<\|python_tag\|>|^\s*\{[^{}]*"(parameters|arguments)"\s*:', llama_calls, partial(_object, "parameters")),
    "python": CallFormat(re.escape(PYTHON_START) + r"|^\s*\[\s*[A-Za-z_][\w.]*\s*\(", python_calls, python_text, re.escape(PYTHON_START)),
}
"""Every format by the name it has in a config."""


def calls_in(completion: str, name: str) -> list[ToolCall]:
    """The calls in a turn outside of its thoughts, in order, in a named format or, `auto`, the one that the text tells."""
    text = without_thoughts(completion)
    for known in FORMATS.values() if name == AUTO else (FORMATS[name],):
        if re.search(known.told_by if name == AUTO and known.told_by else known.sign, text):
            return [_with_example(call, known) for call in known.calls(text)]
    return []


def looks_like_call(completion: str, tools: Iterable[str]) -> bool:
    """Whether a turn, outside of its thoughts, has a tool's name where formats have it: quoted, behind `=`, `:`, `.` or `<`, before `(`."""
    names = "|".join(map(re.escape, tools))
    return re.search(rf"[\"'=:.<]({names})\b|\b({names})\s*[({{]", without_thoughts(completion)) is not None


def _with_example(call: ToolCall, known: CallFormat) -> ToolCall:
    if not call.error:
        return call
    example = known.text(call.name or "name", {"argument": "value"})
    return replace(call, error=f"{call.error}. A call is written {example}")
