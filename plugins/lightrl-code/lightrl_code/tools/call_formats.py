"""The formats in which the families of models write calls, by name, and how a text tells its own."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

from lightrl import without_thoughts
from lightrl_code.tools.tool_calls import JSON, ToolCall, call_of, json_call, read_json, shallow

BEGIN, SEPARATOR, END = "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"  # noqa: RUF001 - DeepSeek's own signs
DSML = "｜DSML｜"  # noqa: RUF001 - likewise


def json_calls(text: str, begin: str, ends: str) -> list[ToolCall]:
    """Calls that are JSON, or whose arguments are, between marks, which its texts may contain as well.

    Args:
        begin: a regular expression of the marks before one, with a group for its name; without a name the JSON is the call.
        ends: one of the marks that may follow it.
    """
    calls = []
    while found := re.search(begin, text):
        call, text = _json_call(text[found.end() :], next(filter(None, found.groups()), "").strip(), ends)
        calls.append(call)
    return calls


def _json_call(text: str, name: str, ends: str) -> tuple[ToolCall, str]:
    if name and (empty := re.match(rf"\s*(?:{ends})", text)):
        return ToolCall(name), text[empty.end() :]
    try:
        value, rest = read_json(text)
    except ValueError as error:
        return ToolCall(name, error=f"the {f'arguments of {name!r} are' if name else 'call is'} no JSON: {error}"), text
    behind = re.split(ends, rest, maxsplit=1)[0].strip()
    if behind:
        what = f"arguments of {name!r}" if name else "call"
        return ToolCall(name, error=f"expected nothing behind the {what}, got {behind[:60]!r}"), rest
    return call_of(name, value) if name else json_call(value), rest


def gemma_calls(text: str) -> list[ToolCall]:
    """`<|tool_call>call:name{argument:<|"|>text<|"|>,other:1}<tool_call|>`; whatever stands between two `<|"|>` is a text."""
    parts = text[text.index("<|tool_call>") :].split('<|"|>')
    parts[::2] = [re.sub(r'([{,]\s*)([^{}\[\],:"]+?)\s*:', _quoted_key, re.sub(r"\bNone\b", "null", part)) for part in parts[::2]]
    parts[1::2] = [json.dumps(part) for part in parts[1::2]]
    return json_calls("".join(parts), r"<\|tool_call>(?:call:([^{}<]+)(?={))?", r"<\|?tool_(?:call|response)\|?>")


def _quoted_key(found: re.Match[str]) -> str:
    return f"{found[1]}{json.dumps(found[2])}:"


def mistral_calls(text: str) -> list[ToolCall]:
    """`[TOOL_CALLS][{"name": ..., "arguments": {...}}, ...]`, or `[TOOL_CALLS]name[ARGS]{...}` once per call."""
    body = text.partition("[TOOL_CALLS]")[2] if "[TOOL_CALLS]" in text else text
    if not body.lstrip().startswith("["):
        return json_calls(text, r"\[TOOL_CALLS\](?:([^\[\]]*)(?:\[CALL_ID\][^\[\]]*)?\[ARGS\])?", r"\[TOOL_CALLS\]")
    try:
        value, _ = read_json(body)
    except ValueError as error:
        return [ToolCall(error=f"the list of calls is no JSON: {error}")]
    if not isinstance(value, list) or not value:
        return [ToolCall(error="expected a list with at least one call")]
    return [json_call(item) for item in value]


def llama_calls(text: str) -> list[ToolCall]:
    """`{"name": ..., "parameters": {...}}`, several with `;` between them."""
    calls: list[ToolCall] = []
    rest = text.split("<|python_tag|>", maxsplit=1)[-1].strip()
    while rest:
        try:
            value, rest = read_json(rest)
        except ValueError as error:
            return [*calls, ToolCall(error=f"the call is no JSON: {error}")]
        calls.append(json_call(value))
        rest = rest.lstrip("; \n")
    return calls or [ToolCall(error="expected a call behind <|python_tag|>, got nothing")]


def marked_calls(text: str, marks: tuple[str, str, str, str, str], typed: bool) -> list[ToolCall]:
    """Calls with marks around each argument; nothing is read behind one that is not closed.

    Args:
        marks: regular expressions: what begins a call, with a group for its name; how an argument begins, and the rest up to its value,
            with a group for its name; what ends an argument, which its text may have as well where nothing follows it; the call's end.
        typed: the argument has a second group, `true` for a text and `false` for JSON; otherwise only the tool knows the types.
    """
    begin, argument, named, closed, end = marks
    calls, at = [], 0
    one = re.compile(rf"\s*{argument}{named}(.*?){closed}(?=\s*(?:{argument}|{end}))", re.DOTALL)
    while found := re.compile(begin).search(text, at):
        name, at, arguments = (found[1] or "").strip(), found.end(), dict[str, JSON]()
        while given := one.match(text, at):
            at = given.end()
            try:
                arguments[given[1].strip()] = _json(given[3]) if typed and given[2] == "false" else given[given.re.groups]
            except ValueError as error:
                return [*calls, ToolCall(name, error=f"the argument {given[1]!r} of {name!r} is no JSON: {error}")]
        closing = re.compile(rf"\s*{end}").match(text, at)
        if not name or not closing:
            wanted = f"{end} behind the arguments of {name!r}, each of them closed" if name else "the name of a function"
            return [*calls, ToolCall(name, error=f"expected {wanted}")]
        calls.append(ToolCall(name, arguments, spelled=not typed))
        at = closing.end()
    return calls


def _json(text: str) -> JSON:
    value, rest = read_json(text)
    if rest.strip():
        raise ValueError(f"{rest.strip()[:60]!r} stands behind it")
    return value


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
    value = ast.literal_eval(node)
    json.dumps(value, allow_nan=False)
    return shallow(_lists(value))


def _lists(value: object) -> JSON:
    """A value with lists in place of tuples; keys of dicts stay what they are."""
    if isinstance(value, dict):
        return {key: _lists(item) for key, item in value.items()}
    return [_lists(item) for item in value] if isinstance(value, (list, tuple)) else value


AUTO = "auto"


@dataclass(frozen=True)
class CallFormat:
    """A way to write calls."""

    sign: str
    """A regular expression that is found in a text with a call, be it well written or not, where the first one begins."""
    calls: Callable[[str], list[ToolCall]]
    """The calls in a text that has the sign, in order; never raises."""
    example: str
    """A call of `NAME` with one argument."""
    told_by: str | None = None
    """A sign for where no format is named, if answers might have the other one as well; None: they do not."""


def _json_format(sign: str, named: str, ends: str, example: str) -> CallFormat:
    return CallFormat(sign, partial(json_calls, begin=f"{sign}(?:{named})?", ends=ends), example)


def _marked_format(sign: str, marks: tuple[str, str, str, str, str], example: str, typed: bool = False) -> CallFormat:
    return CallFormat(sign, partial(marked_calls, marks=marks, typed=typed), example)


# of two whose signs begin at the same place the first is meant
FORMATS = {
    "deepseek": _json_format(
        BEGIN,
        f"function{SEPARATOR}([^\n<]*)\n```json|([^\n{{<]*?){SEPARATOR}",
        f"```|{END}|{BEGIN}",
        f'<｜tool▁calls▁begin｜>{BEGIN}NAME{SEPARATOR}{{"argument": "value"}}{END}<｜tool▁calls▁end｜>',  # noqa: RUF001
    ),
    "deepseek_dsml": _marked_format(
        f"<{DSML}",
        (
            f'<{DSML}invoke name="(?:([^"]*)">)?',
            f"<{DSML}parameter ",
            'name="([^"]*)" string="(true|false)">',
            f"</{DSML}parameter>",
            f"</{DSML}invoke>",
        ),
        f'<{DSML}tool_calls>\n<{DSML}invoke name="NAME">\n<{DSML}parameter name="argument" string="true">value</{DSML}parameter>\n'
        f"</{DSML}invoke>\n</{DSML}tool_calls>",
        typed=True,
    ),
    "kimi": _json_format(
        r"<\|tool_call_begin\|>",
        r"\s*(?:functions\.)?([^<]*?)(?::\d+)?\s*<\|tool_call_argument_begin\|>",
        r"<\|tool_call_(?:end|begin)\|>",
        '<|tool_calls_section_begin|><|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>{"argument": "value"}<|tool_call_end|>'
        "<|tool_calls_section_end|>",
    ),
    # the name stands in front of the channel or behind it
    "harmony": _json_format(
        r"(?:^|<\|start\|>assistant|<\|channel\|>\w+)\s*to=",
        r"(?:functions\.)?([\w.-]+)[^<]{0,20}(?:<\|(?:channel|constrain)\|>[^<]{0,20}){0,2}<\|message\|>",
        r"<\|(?:call|end|start)\|>",
        '<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{"argument": "value"}<|call|>',
    ),
    "gemma": CallFormat(r"<\|tool_call>", gemma_calls, '<|tool_call>call:NAME{argument:<|"|>value<|"|>}<tool_call|>'),
    "minimax": _marked_format(
        "<minimax:tool_call>",
        ('<invoke name="(?:([^"]*)">)?', "<parameter ", 'name="([^"]*)">', "</parameter>", "</invoke>"),
        '<minimax:tool_call>\n<invoke name="NAME">\n<parameter name="argument">value</parameter>\n</invoke>\n</minimax:tool_call>',
    ),
    "qwen_coder": _marked_format(
        r"(?:<tool_call>\s*)?<function=",
        # the line breaks next to the marks are the format's
        ("<function=(?:([^>]*)>)?", "<parameter=", "([^>]*)>\n?", "\n?</parameter>", "</function>"),
        "<tool_call>\n<function=NAME>\n<parameter=argument>\nvalue\n</parameter>\n</function>\n</tool_call>",
    ),
    "glm": _marked_format(
        r"<tool_call>\s*[\w.-]+\s*(<arg_key>|</tool_call>)",
        ("<tool_call>([^<]*)", "<arg_key>", r"([^<]*)</arg_key>\s*<arg_value>", "</arg_value>", "</tool_call>"),
        "<tool_call>NAME\n<arg_key>argument</arg_key>\n<arg_value>value</arg_value>\n</tool_call>",
    ),
    "hermes": _json_format(
        "<tool_call>", "", "</?tool_call>", '<tool_call>\n{"name": "NAME", "arguments": {"argument": "value"}}\n</tool_call>'
    ),
    "mistral": CallFormat(
        r'\[TOOL_CALLS\]|^\s*\[\s*\{[^{}]*"arguments"\s*:',
        mistral_calls,
        '[TOOL_CALLS][{"name": "NAME", "arguments": {"argument": "value"}}]',
    ),
    "llama": CallFormat(
        r'<\|python_tag\|>|^\s*\{[^{}]*"(parameters|arguments)"\s*:', llama_calls, '{"name": "NAME", "parameters": {"argument": "value"}}'
    ),
    "python": CallFormat(
        re.escape(PYTHON_START) + r"|^\s*\[\s*[A-Za-z_][\w.]*\s*\(", python_calls, "[NAME(argument='value')]", re.escape(PYTHON_START)
    ),
}
"""Every format by the name it has in a config."""


def calls_in(completion: str, name: str) -> list[ToolCall]:
    """The calls in a turn outside of its thoughts, in order, in a named format or, `auto`, the one whose sign comes first."""
    text = _spoken(completion)
    known = list(FORMATS.values()) if name == AUTO else [FORMATS[name]]
    signs = [re.search(one.told_by if name == AUTO and one.told_by else one.sign, text) for one in known]
    found = [(sign.start(), i) for i, sign in enumerate(signs) if sign is not None]
    if not found:
        return []
    chosen = known[min(found)[1]]
    return [
        replace(call, error=call.error and f"{call.error}. A call is written {example(chosen, call.name)}") for call in chosen.calls(text)
    ]


HIDE = "\udfff"
"""Between the characters of an argument while thoughts are looked for; no decoded text has it."""
ARGUMENT = re.compile(
    r"""(?<=[:=\[,({])\s*(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')(?=\s*[,)\]}])"""
    r"|(?<=<arg_value>).*?(?=</arg_value>)|<parameter[^>\n]*>.*?(?=</parameter>)",
    re.DOTALL,
)
"""A text as JSON and Python quote it, or between the marks of an argument."""


def _spoken(completion: str) -> str:
    """A turn without its thoughts, whose marks do not count in an argument."""
    return without_thoughts(ARGUMENT.sub(lambda found: HIDE.join(found[0]), completion)).replace(HIDE, "")


def example(known: CallFormat, name: str = "") -> str:
    """A call in a format, of a function if its name is known."""
    return known.example.replace("NAME", name or "name")


def looks_like_call(completion: str, tools: Iterable[str]) -> bool:
    """Whether a turn, outside of its thoughts, has a tool's name where formats have it: quoted, behind `=`, `:`, `.` or `<`, before `(`."""
    names = "|".join(map(re.escape, tools))
    return re.search(rf"[\"'=:.<]({names})\b|\b({names})\s*[({{]", without_thoughts(completion)) is not None
