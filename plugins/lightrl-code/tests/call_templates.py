"""Chat templates that write calls as those of the families do, much shortened, and what a policy would have sampled by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from lightrl import TinyPolicy

FRAME = """
{%- for message in messages -%}
{%- if message.role != 'assistant' -%}{{ message.role }}: {{ message.content }}
{% else -%}assistant:@CALLS@<end>
{% endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}assistant:{% endif -%}
"""
THOUGHTS = "{%- if message.reasoning_content %}{{ '<think>\n' + message.reasoning_content + '\n</think>\n\n' }}{% endif -%}"
EACH = "{%- for call in message.tool_calls -%}{%- set f = call.function -%}"
SPELL = "{{ value if value is string else value|tojson }}"
DEEPSEEK = "<｜tool▁call▁begin｜>{{ f.name }}<｜tool▁sep｜>{{ f.arguments|tojson }}<｜tool▁call▁end｜>"  # noqa: RUF001
DSML = """
{%- for call in message.tool_calls -%}{%- set f = call.function -%}
{{- '<｜DSML｜invoke name="' + f.name + '">\n' -}}
{%- for key, value in f.arguments|items -%}
{{- '<｜DSML｜parameter name="' + key + '" string="' + ('true' if value is string else 'false') + '">' -}}
@SPELL@{{ '</｜DSML｜parameter>\n' }}
{%- endfor -%}
{{- '</｜DSML｜invoke>\n' -}}
{%- endfor -%}
"""  # noqa: RUF001
GEMMA = """
{%- macro format_argument(argument) -%}
{%- if argument is string -%}{{ '<|"|>' + argument + '<|"|>' }}
{%- elif argument is boolean -%}{{ 'true' if argument else 'false' }}
{%- elif argument is mapping -%}
{{ '{' }}{% for key, value in argument|dictsort %}{{ ',' if not loop.first }}{{ key }}:{{ format_argument(value) }}{% endfor %}{{ '}' }}
{%- elif argument is sequence -%}
{{ '[' }}{% for item in argument %}{{ ',' if not loop.first }}{{ format_argument(item) }}{% endfor %}{{ ']' }}
{%- else -%}{{ argument }}
{%- endif -%}
{%- endmacro -%}
{%- for message in messages -%}
{{- '<|turn>' + ('model' if message.role == 'assistant' else message.role) + '\n' -}}
{%- if message.reasoning_content %}{{ '<|channel>thought\n' + message.reasoning_content + '<channel|>' }}{% endif -%}
{%- for call in message.tool_calls or [] -%}
<|tool_call>call:{{ call.function.name }}{{ format_argument(call.function.arguments) }}<tool_call|>
{%- endfor -%}
{{ message.content }}<turn|>
{% endfor -%}
{%- if add_generation_prompt -%}{{ '<|turn>model\n' }}{%- endif -%}
"""
HARMONY = """
{%- for message in messages -%}
{%- if message.role != 'assistant' -%}<|start|>{{ message.role }}<|message|>{{ message.content }}<|end|>
{%- else -%}
{%- if message.reasoning_content %}<|start|>assistant<|channel|>analysis<|message|>{{ message.reasoning_content }}<|end|>{% endif -%}
{%- if message.content %}<|start|>assistant<|channel|>commentary<|message|>{{ message.content }}<|end|>{% endif -%}
{%- for call in message.tool_calls -%}
<|start|>assistant@CALL@<|message|>{{ call.function.arguments|tojson }}<|call|>
{%- endfor -%}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|start|>assistant{%- endif -%}
"""
MINIMAX = """
{%- for call in message.tool_calls -%}{%- set f = call.function -%}
{{- '<invoke name="' + f.name + '">\n' -}}
{%- for key, value in f.arguments|items -%}{{ '<parameter name="' + key + '">' }}@SPELL@{{ '</parameter>\n' }}{% endfor -%}
{{- '</invoke>\n' -}}
{%- endfor -%}
"""
QWEN_CODER = """
{%- for call in message.tool_calls -%}{%- set f = call.function -%}
{{- '\n<tool_call>\n<function=' + f.name + '>\n' -}}
{%- for key, value in f.arguments|items -%}{{ '<parameter=' + key + '>\n' }}@SPELL@{{ '\n</parameter>\n' }}{% endfor -%}
{{- '</function>\n</tool_call>' -}}
{%- endfor -%}
"""
GLM = """
{%- for call in message.tool_calls -%}{%- set f = call.function -%}
{{- '\n<tool_call>' + f.name + '\n' -}}
{%- for key, value in f.arguments|items -%}{{ '<arg_key>' + key + '</arg_key>\n<arg_value>' }}@SPELL@{{ '</arg_value>\n' }}{% endfor -%}
{{- '</tool_call>' -}}
{%- endfor -%}
"""
CALL = "{{ {'name': f.name, '@KEY@': f.arguments}|tojson }}"
SAID = THOUGHTS + "{{ message.content }}"


def _framed(calls: str) -> str:
    return FRAME.replace("@CALLS@", SAID + calls.replace("@SPELL@", SPELL))


TEMPLATES = {
    "deepseek": _framed("<｜tool▁calls▁begin｜>" + EACH + DEEPSEEK + "{%- endfor -%}<｜tool▁calls▁end｜>"),  # noqa: RUF001
    "deepseek_dsml": _framed("{{ '\n\n<｜DSML｜tool_calls>\n' }}" + DSML + "</｜DSML｜tool_calls>"),  # noqa: RUF001
    "kimi": _framed(
        "<|tool_calls_section_begin|>"
        + EACH
        + "<|tool_call_begin|>functions.{{ f.name }}:{{ loop.index0 }}<|tool_call_argument_begin|>{{ f.arguments|tojson }}<|tool_call_end|>"
        + "{%- endfor -%}<|tool_calls_section_end|>"
    ),
    "harmony": HARMONY.replace("@CALL@", " to=functions.{{ call.function.name }}<|channel|>commentary json"),
    "gemma": GEMMA,
    "minimax": _framed("{{ '\n<minimax:tool_call>\n' }}" + MINIMAX + "</minimax:tool_call>"),
    "qwen_coder": _framed(QWEN_CODER),
    "glm": _framed(GLM),
    "hermes": _framed(EACH + "{{ '\n<tool_call>\n' }}" + CALL.replace("@KEY@", "arguments") + "{{ '\n</tool_call>' }}{%- endfor -%}"),
    "mistral": _framed("[TOOL_CALLS][" + EACH + CALL.replace("@KEY@", "arguments") + "{{ ', ' if not loop.last }}{%- endfor -%}]"),
    "llama": _framed("<|python_tag|>" + EACH + CALL.replace("@KEY@", "parameters") + "{{ '; ' if not loop.last }}{%- endfor -%}"),
}
"""By the name of the format; `python` has none."""
SAMPLED = HARMONY.replace("@CALL@", "<|channel|>commentary to=functions.{{ call.function.name }} <|constrain|>json")
"""How gpt-oss itself writes the head of a call, which its template writes in another order."""


def sampled(template: str, calls: Sequence[tuple[str, Mapping[str, Any]]], said: str = "", thought: str = "") -> str:
    """A turn with these calls as a policy samples it: what the template writes behind the opening of an answer."""
    tokenizer = _tokenizer()
    asked = [{"role": "user", "content": "?"}]
    tools = [{"type": "function", "function": {"name": name, "arguments": dict(arguments)}} for name, arguments in calls]
    turn = {"role": "assistant", "content": said, "reasoning_content": thought, "tool_calls": tools}
    tokenizer.chat_template = template
    opened = tokenizer.apply_chat_template(asked, tokenize=False, add_generation_prompt=True)
    whole = tokenizer.apply_chat_template([*asked, turn], tokenize=False)
    if not whole.startswith(opened):
        raise ValueError(f"{opened!r} does not begin {whole!r}")
    return whole[len(opened) :].removesuffix("<end>\n").removesuffix("<turn|>\n").removesuffix("<|call|>")


@cache
def _tokenizer() -> Any:
    return TinyPolicy(hidden=16, layers=1).build().tokenizer
