"""The formats of calls: as the families of models write them, and whatever a policy may write instead."""

from __future__ import annotations

import json
from typing import Any

import pytest
from call_templates import SAMPLED, TEMPLATES, sampled
from hypothesis import given, settings
from hypothesis import strategies as st
from lightrl_code import ToolEnvironment
from lightrl_code.tools.call_formats import FORMATS, calls_in
from lightrl_code.tools.tool_arguments import converted
from lightrl_code.tools.tool_calls import ToolCall

from lightrl import Prompt

SPELLED = {"qwen_coder", "glm", "minimax"}
WRITTEN = {
    "hermes": '<think>I could <tool_call>{}</tool_call></think>\n<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>\n'
    '<tool_call>\n{"name": "g", "arguments": {}}\n</tool_call>',
    "llama": '<|python_tag|>{"name": "f", "parameters": {"x": 1}}; {"type": "function", "name": "g", "parameters": {}}',
    "mistral": '[TOOL_CALLS][{"name": "f", "arguments": {"x": 1}, "id": "123456789"}, {"name": "g", "arguments": {}}]',
    "deepseek": 'So: <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"x": 1}<｜tool▁call▁end｜>'  # noqa: RUF001
    "<｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",  # noqa: RUF001
    "kimi": '<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"x": 1}<|tool_call_end|>'
    "<|tool_call_begin|>functions.g:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
    "harmony": "<|channel|>analysis<|message|>Both.<|end|><|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json"
    '<|message|>{"x": 1}<|call|><|start|>assistant to=functions.g<|channel|>commentary json<|message|>{}',
    "gemma": "<|channel>thought\nBoth.<channel|><|tool_call>call:f{x:1}<tool_call|><|tool_call>call:g{}<tool_call|>",
    "minimax": 'Both.\n</think>\n\n<minimax:tool_call>\n<invoke name="f">\n<parameter name="x">1</parameter>\n</invoke>\n'
    '<invoke name="g">\n</invoke>\n</minimax:tool_call>',
    "deepseek_dsml": '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="f">\n<｜DSML｜parameter name="x" string="false">1</｜DSML｜parameter>\n'  # noqa: RUF001
    '</｜DSML｜invoke>\n<｜DSML｜invoke name="g">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>',  # noqa: RUF001
    "qwen_coder": "<tool_call>\n<function=f>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>\n"
    "<tool_call>\n<function=g>\n</function>\n</tool_call>",
    "glm": "<tool_call>f\n<arg_key>x</arg_key>\n<arg_value>1</arg_value>\n</tool_call>\n<tool_call>g\n</tool_call>",
    "python": "<|python_start|>[f(x=1), g()]<|python_end|>",
}
OTHER_WAYS = [
    ("llama", '{"name": "f", "parameters": {"x": 1}}\n{"name": "g", "parameters": {}}'),
    ("mistral", '[TOOL_CALLS]f[ARGS]{"x": 1}[TOOL_CALLS]g[CALL_ID]123456789[ARGS]{}'),
    ("mistral", ' [{"name": "f", "arguments": {"x": 1}}, {"name": "g", "arguments": {}}]'),
    ("hermes", '<tool_call>{"name": "f", "arguments": "{\\"x\\": 1}"}<tool_call>{"name": "g"}'),
    (
        "deepseek",
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{"x": 1}\n```<｜tool▁call▁end｜>\n'  # noqa: RUF001
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```<｜tool▁call▁end｜>",  # noqa: RUF001
    ),
]
names = st.from_regex(r"[a-z_][a-z0-9_]{0,9}", fullmatch=True).filter(
    lambda name: name.isidentifier() and name not in ("not", "is", "in", "if")
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)


def expected(name: str) -> list[ToolCall]:
    x: Any = "1" if name in SPELLED else 1
    return [ToolCall("f", {"x": x}, spelled=name in SPELLED), ToolCall("g", spelled=name in SPELLED)]


@pytest.mark.parametrize("name", WRITTEN)
def test_each_family_is_read_by_name_and_told_by_its_text(name: str) -> None:
    assert calls_in(WRITTEN[name], name) == expected(name)
    assert calls_in(WRITTEN[name], "auto") == expected(name)


@pytest.mark.parametrize(("name", "text"), OTHER_WAYS)
def test_further_ways_of_a_family(name: str, text: str) -> None:
    assert calls_in(text, name) == expected(name)
    assert calls_in(text, "auto") == expected(name)


def test_every_format_is_among_the_examples() -> None:
    assert set(WRITTEN) == set(FORMATS)


def test_arguments_of_python_may_be_given_in_order() -> None:
    assert calls_in("[add(47, b=(1, 'x')), g(-1.5, None)]", "python") == [
        ToolCall("add", {"b": [1, "x"]}, (47,)),
        ToolCall("g", {}, (-1.5, None)),
    ]


@pytest.mark.parametrize(
    "answer",
    ["", "It is 132.", "[1, 2]", "[f(x)]", '{"name": "Ada", "age": 36}', '[{"name": "Ada"}]', "<think><tool_call>{}</tool_call></think>4"],
)
def test_an_answer_is_no_call(answer: str) -> None:
    assert calls_in(answer, "auto") == []


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("hermes", "<tool_call>{'name': 'f'}</tool_call>", "the call is no JSON: Expecting property name"),
        ("hermes", '<tool_call>{"name": "f", "arguments": {"x": NaN}}</tool_call>', "the call is no JSON: NaN is no JSON"),
        ("hermes", "<tool_call>[1]</tool_call>", 'expected an object with "name" and "arguments", got [1]'),
        ("hermes", '<tool_call>{"name": "f", "arguments": [1]}</tool_call>', "expected the arguments of 'f' as an object, got [1]"),
        ("hermes", '<tool_call>{"name": "f"} and more</tool_call>', "expected nothing behind the call, got 'and more'"),
        ("hermes", "<tool_call>" + "[" * 100_000, "the call is no JSON: it is nested too deeply"),
        (
            "hermes",
            '<tool_call>{"name": "f", "arguments": {"x": ' + "[" * 60 + "]" * 60 + "}}</tool_call>",
            "the call is no JSON: it is nested",
        ),
        ("hermes", '<tool_call>{"name": "f", "arguments": {"x": 1e999}}</tool_call>', "the call is no JSON: 1e999 is too large"),
        ("python", "[f(1e999)]", "expected the arguments of 'f' to be numbers, texts"),
        ("python", "[f(" + "[" * 60 + "]" * 60 + ")]", "expected the arguments of 'f' to be numbers, texts"),
        ("llama", "<|python_tag|>", "expected a call behind <|python_tag|>"),
        ("llama", "<|python_tag|>f(x)", "the call is no JSON"),
        ("mistral", "[TOOL_CALLS][]", "expected a list with at least one call"),
        ("mistral", "[TOOL_CALLS]f[ARGS]{x}", "the arguments of 'f' are no JSON"),
        ("kimi", "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{", "the arguments of 'f' are no JSON"),
        ("kimi", "<|tool_call_begin|>functions.f:0", "the call is no JSON: Expecting value"),
        ("qwen_coder", "<function=f", "expected the name of a function"),
        ("qwen_coder", "<function=f><parameter=x", "expected </function> behind the arguments of 'f', each of them closed"),
        ("glm", "<tool_call>f<arg_key>x</arg_key></tool_call>", "expected </tool_call> behind the arguments of 'f', each of them closed"),
        ("harmony", "<|channel|>commentary to=functions.f", "the call is no JSON: Expecting value"),
        ("harmony", "<|channel|>commentary to=functions.f json<|message|>{x}", "the arguments of 'f' are no JSON"),
        ("harmony", "<|channel|>commentary to=functions.f json<|message|>[1]", "expected the arguments of 'f' as an object, got [1]"),
        ("gemma", "<|tool_call>add(1)<tool_call|>", "the call is no JSON: Expecting value"),
        ("gemma", "<|tool_call>call:f{city:Oslo}<tool_call|>", "the arguments of 'f' are no JSON"),
        ("gemma", '<|tool_call>call:f{city:<|"|>Oslo', "the arguments of 'f' are no JSON"),
        ("minimax", '<minimax:tool_call><invoke name="f"><parameter name="x">1', "expected </invoke> behind the arguments of 'f'"),
        (
            "deepseek_dsml",
            '<｜DSML｜tool_calls><｜DSML｜invoke name="f"><｜DSML｜parameter name="x" string="false">Oslo</｜DSML｜parameter>'  # noqa: RUF001
            "</｜DSML｜invoke>",  # noqa: RUF001
            "the argument 'x' of 'f' is no JSON: Expecting value",
        ),
        ("python", "[f(x=1]", "the list of calls is no Python"),
        ("python", "[f(x=y)]", "expected the arguments of 'f' to be numbers, texts"),
        ("python", "[f(x={1})]", "expected the arguments of 'f' to be numbers, texts"),
        ("python", "[f(**{'x': 1})]", "expected the arguments of 'f' one by one"),
        ("python", "[f(1), 2]", "expected each member of the list to be a call"),
        ("python", "[f(1), (lambda: 0)()]", "expected each member of the list to be a call"),
        ("python", "[f(" + "(" * 10_000, "the list of calls is no Python"),
    ],
)
def test_a_call_that_cannot_be_read_says_what_was_expected(name: str, text: str, expected: str) -> None:
    error = calls_in(text, name)[-1].error
    assert error.startswith(expected)
    assert ". A call is written " in error


def as_read(name: str, tool: str, arguments: dict[str, Any]) -> ToolCall:
    """The call that is read of one which a template wrote."""
    if name in SPELLED:
        arguments = {key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for key, value in arguments.items()}
    return ToolCall(tool, arguments, spelled=name in SPELLED)


ORDER = {"item": "tea, 2 cups", "count": 3, "hot": True, "sizes": [1, 2.5], "to": {"city": "Oslo", "zip": None}}


@pytest.mark.parametrize(("name", "template"), [*TEMPLATES.items(), ("harmony", SAMPLED)])
@pytest.mark.parametrize("way", ["named", "auto"])
def test_calls_that_the_familys_template_writes_are_read_back(name: str, template: str, way: str) -> None:
    calls = [("order", ORDER), ("look", {}), ("say", {"text": "done\n"})]
    # in gpt-oss the marks of a call end a thought
    turn = sampled(template, calls, said="I order it:", thought="{}?" if name == "harmony" else f"Or rather {FORMATS[name].example}?")
    assert calls_in(turn, name if way == "named" else way) == [as_read(name, tool, arguments) for tool, arguments in calls]


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("way", ["named", "auto"])
def test_low_the_marks_of_a_call_inside_an_argument_do_not_end_it(name: str, way: str) -> None:
    pages = {
        "qwen_coder": "a </parameter> b </function> c <function=g> d",
        "glm": "a </arg_value> b </tool_call> c <tool_call>g d",
        "minimax": 'a </parameter> b </invoke> c <invoke name="g"> d </minimax:tool_call>',
        "deepseek_dsml": 'a </｜DSML｜parameter> b </｜DSML｜invoke> c <｜DSML｜invoke name="g"> d',  # noqa: RUF001
        "gemma": "<tool_call|> <|tool_call>call:g{x:1}<tool_call|>",
    }
    others = "".join(FORMATS[other].example for other in FORMATS if other not in (name, "gemma"))
    calls = [
        ("write", {"text": pages.get(name, FORMATS[name].example)}),
        ("write", {"text": others, "more": {"inner": [others]}}),
        ("g", {}),
    ]
    turn = sampled(TEMPLATES[name], calls)
    assert calls_in(turn, name if way == "named" else way) == [as_read(name, tool, arguments) for tool, arguments in calls]


@pytest.mark.parametrize(("name", "template"), [*TEMPLATES.items(), ("harmony", SAMPLED)])
def test_a_call_that_is_cut_off_is_not_made(name: str, template: str) -> None:
    calls = [("look", {}), ("order", ORDER)]
    whole = [as_read(name, tool, arguments) for tool, arguments in calls]
    turn = sampled(template, calls, said="Now:")
    for cut in range(len(turn)):
        read = calls_in(turn[:cut], name)
        made = [call for call in read if not call.error]
        assert made == whole[: len(made)]
        assert len(read) - len(made) <= 1
    assert calls_in(turn, name) == whole


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_call_of_each_family_is_made_with_arguments_of_the_tools_types(name: str) -> None:
    environment = ToolEnvironment(["tool_examples.kinds", "lightrl_code.arithmetic.add"])
    kinds = {"number": 2, "flag": True, "names": ["a", "b"], "pair": [1, "x"], "unit": "F", "table": {"t": 1}, "either": "7"}
    environment.begin(Prompt(id="a", messages=({"role": "user", "content": "47+85="},)), 0)
    reply = environment.reply(sampled(TEMPLATES[name], [("kinds", kinds), ("add", {"a": 47, "b": 85})]))
    assert [message["content"] for message in reply.said if not isinstance(message, str)] == [
        "(2.0, True, ['a', 'b'], (1, 'x'), <Unit.FAHRENHEIT: 'F'>, 'up', {'t': 1.0}, None, '7')",
        "132",
    ]
    assert reply.counts == {"tools/kinds/calls": 1.0, "tools/add/calls": 1.0}


@settings(max_examples=60)
@given(st.sampled_from(sorted(TEMPLATES)), names, st.dictionaries(names, values, max_size=3))
def test_a_written_call_is_read_back(name: str, tool: str, arguments: dict[str, Any]) -> None:
    assert calls_in(sampled(TEMPLATES[name], [(tool, arguments)]), name) == [as_read(name, tool, arguments)]


@given(st.sampled_from([*sorted(FORMATS), "auto"]), st.text(), st.data())
def test_whatever_is_written_nothing_raises(name: str, text: str, data: st.DataObject) -> None:
    parts = sorted(
        set("".join(WRITTEN.values()))
        | {"<tool_call>", "</tool_call>", "<function=", "[TOOL_CALLS]", "<|python_tag|>", "[f(", "[ARGS]", '<|"|>', "<|call|>"}
    )
    mixed = "".join(data.draw(st.lists(st.sampled_from(parts) | st.text(max_size=3), max_size=20)))
    written = data.draw(st.sampled_from(sorted(WRITTEN.values())))
    cut = data.draw(st.integers(0, len(written)))
    for turn in (text, mixed, written[:cut], written[:cut] + text + written[cut:]):
        for call in calls_in(turn, name):
            assert call.name or call.error
            json.dumps([dict(call.arguments), call.positional], allow_nan=False)


WITH_THOUGHTS = {
    "hermes": '<tool_call>\n{"name": "f", "arguments": {"x": "a </think> b", "n": "<think>"}}\n</tool_call>',
    "llama": '{"name": "f", "parameters": {"x": "a </think> b", "n": "<think>"}}',
    "python": "[f(x='a </think> b', n='<think>')]",
    "qwen_coder": "<tool_call>\n<function=f>\n<parameter=x>\na </think> b\n</parameter>\n<parameter=n>\n<think>\n</parameter>\n"
    "</function>\n</tool_call>",
    "glm": "<tool_call>f\n<arg_key>x</arg_key>\n<arg_value>a </think> b</arg_value>\n"
    "<arg_key>n</arg_key>\n<arg_value><think></arg_value>\n</tool_call>",
    "minimax": '<minimax:tool_call>\n<invoke name="f">\n<parameter name="x">a </think> b</parameter>\n'
    '<parameter name="n"><think></parameter>\n</invoke>\n</minimax:tool_call>',
}


@pytest.mark.parametrize("name", WITH_THOUGHTS)
@pytest.mark.parametrize("before", ["", "<think>plan: f(x)</think>\n", "a plan, \"it is' </think>\n"])
def test_low_marks_of_thoughts_in_an_argument_are_part_of_it(name: str, before: str) -> None:
    assert calls_in(before + WITH_THOUGHTS[name], name) == [ToolCall("f", {"x": "a </think> b", "n": "<think>"}, spelled=name in SPELLED)]


@pytest.mark.parametrize("name", WITH_THOUGHTS)
def test_low_a_call_in_a_thought_is_none_whatever_its_arguments_hold(name: str) -> None:
    assert calls_in("<think>" + WITH_THOUGHTS[name], name) == []


def test_low_keys_in_calls_of_python_keep_their_types() -> None:
    assert calls_in("[f({1: 'a', '1': (2,)})]", "python") == [ToolCall("f", {}, ({1: "a", "1": [2]},))]
    assert calls_in("[f({(1, 2): 'a'})]", "python")[0].error.startswith("expected the arguments of 'f' to be numbers")


@pytest.mark.parametrize(
    ("hint", "value", "expected"),
    [
        (dict[int, str], {1: "a"}, {1: "a"}),
        (dict[int, str], {"1": "a"}, {1: "a"}),
        (dict[str, str], {"1": "a"}, {"1": "a"}),
        (dict[int, str], {"one": "a"}, None),
        (dict[str, str], {1: "a"}, None),
    ],
)
def test_low_keys_of_dicts_are_of_the_type_that_the_tool_declares(hint: Any, value: Any, expected: Any) -> None:
    if expected is None:
        with pytest.raises(TypeError):
            converted(value, hint)
    else:
        assert converted(value, hint) == expected
