"""The formats in which the families of models write calls, by name, and how a text tells its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from lightrl.environments.json_calls import (
    BEGIN,
    KIMI_BEGIN,
    deepseek_calls,
    deepseek_text,
    hermes_calls,
    hermes_text,
    kimi_calls,
    kimi_text,
    llama_calls,
    llama_text,
    mistral_calls,
    mistral_text,
)
from lightrl.environments.markup_calls import glm_calls, glm_text, qwen_coder_calls, qwen_coder_text
from lightrl.environments.python_calls import START, python_calls, python_text
from lightrl.environments.tool_calls import ToolCall
from lightrl.prompt import JSON

AUTO = "auto"
THOUGHTS_END = "</think>"


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
    "llama": CallFormat(r'<\|python_tag\|>|^\s*\{[^{}]*"(parameters|arguments)"\s*:', llama_calls, llama_text),
    "python": CallFormat(re.escape(START) + r"|^\s*\[\s*[A-Za-z_][\w.]*\s*\(", python_calls, python_text, re.escape(START)),
}
"""Every format by the name it has in a config."""


def calls_in(completion: str, name: str) -> list[ToolCall]:
    """The calls in a turn of the policy, in order; none if it calls nothing. Calls within its thoughts do not count.

    Args:
        completion: the turn.
        name: of a format, or `auto`: the text tells.
    """
    text = completion.rpartition(THOUGHTS_END)[2]
    for known in FORMATS.values() if name == AUTO else (FORMATS[name],):
        if re.search(known.told_by if name == AUTO and known.told_by else known.sign, text):
            return [_with_example(call, known) for call in known.calls(text)]
    return []


def format_written(name: str) -> CallFormat:
    """The format in which calls are shown to a policy that no chat template shows them to."""
    return FORMATS["hermes" if name == AUTO else name]


def _with_example(call: ToolCall, known: CallFormat) -> ToolCall:
    if not call.error:
        return call
    example = known.text(call.name or "name", {"argument": "value"})
    return replace(call, error=f"{call.error}. A call is written {example}")
