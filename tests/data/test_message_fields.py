"""Messages of data with calls of tools and thoughts: kept where the chat template writes them, refused where it does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lightrl import JsonLines
from lightrl.policy.tiny import character_tokenizer
from lightrl.text.encoding import encode_prompt
from lightrl.text.turns import tokenize_turns

TAKES = (
    "{% for m in messages %}{{ m.role[0] }}({% if m.reasoning_content %}[{{ m.reasoning_content }}]{% endif %}{{ m.content }}"
    "{% for c in m.tool_calls %}{{ c.function.name }}{% for k, v in c.function.arguments.items() %} {{ k }} {{ v }}{% endfor %}"
    "{% endfor %}{% if m.tool_call_id %} {{ m.tool_call_id }} {{ m.name }}{% endif %}<eos>{% endfor %}"
    "{% if add_generation_prompt %}a({% endif %}"
)
PLAIN = "{% for m in messages %}{{ m.role[0] }}({{ m.content }}<eos>{% endfor %}{% if add_generation_prompt %}a({% endif %}"
CALL = [{"type": "function", "id": "c0", "function": {"name": "add", "arguments": {"a": 1, "b": 2}}}]
TALK: list[dict[str, Any]] = [
    {"role": "user", "content": "1 2", "tool_calls": None},
    {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": CALL},
    {"role": "tool", "name": "add", "tool_call_id": "c0", "content": "3"},
    {"role": "assistant", "content": "3"},
]


def tokenizer(template: str) -> Any:
    made = character_tokenizer("0123456789abcdefghijklmnopqrstuvwxyz()[]{}<>'\":, ", 512)
    made.chat_template = template
    return made


def read(folder: Path, messages: list[dict[str, Any]]) -> Any:
    (folder / "rows.jsonl").write_text(json.dumps({"prompt": messages}) + "\n")
    return JsonLines(path=str(folder / "rows.jsonl"), answer=None).prompt(0)


def test_m7_calls_and_thoughts_reach_the_chat_template(tmp_path: Path) -> None:
    prompt, made = read(tmp_path, TALK), tokenizer(TAKES)
    turns = tokenize_turns(made, prompt.messages, [1, 3], {1}, 1)
    learnt = [made.decode([turns.ids[i] for i in turns.written[turn]]) for turn in (1, 3)]
    assert learnt == ["[hm]add a 1 b 2<eos>", "3<eos>"]
    asked = made.decode(encode_prompt(made, read(tmp_path, TALK[:3])).ids)
    assert asked == "u(1 2<eos>a([hm]add a 1 b 2<eos>t(3 c0 add<eos>a("


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tool_calls", CALL), ("reasoning_content", "hm"), ("thinking", "hm"), ("function_call", {}), ("tool_plan", "first add"),
        ("tool_responses", [{"name": "add", "response": 3}]), ("images", ["a.png"]), ("thoughts", "hm"),
    ],
)  # fmt: skip
def test_m7_what_the_template_never_writes_is_refused(field: str, value: Any, tmp_path: Path) -> None:
    talk = [TALK[0], {"role": "assistant", "content": "", field: value or {"name": "add"}}]
    prompt, made = read(tmp_path, talk), tokenizer(PLAIN)
    for encode in (lambda: tokenize_turns(made, prompt.messages, [1], {1}, 1), lambda: encode_prompt(made, prompt)):
        with pytest.raises(ValueError, match=f"has {field}, which the chat template never writes"):
            encode()


def test_m7_names_that_the_template_never_writes_are_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = tokenizer(PLAIN)
    for _ in range(3):
        encode_prompt(made, read(tmp_path, [TALK[0], {"role": "assistant", "content": "5"}, TALK[2]]))
    assert sorted(record.args[0] for record in caplog.records) == ["name", "tool_call_id"]


def test_m7_an_argument_of_a_call_spells_no_control_token(tmp_path: Path) -> None:
    call = [{"function": {"name": "add", "arguments": {"<eos>": "<eos>"}}}]
    prompt, made = read(tmp_path, [TALK[0], {"role": "assistant", "content": "", "tool_calls": call}]), tokenizer(TAKES)
    found = encode_prompt(made, prompt)
    assert found.special == 2
    assert found.ids.count(1) == 2, "those that the template writes"


def test_m7_a_message_without_words_and_call_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="list of messages"):
        read(tmp_path, [TALK[0], {"role": "assistant", "content": None}])


WRITTEN = {
    # DeepSeek joins, some print what Python does, Qwen and most write JSON themselves
    "joined": "{{ '' + c.function.arguments }}",
    "printed": "{{ c.function.arguments }}",
    "tojson": "{{ c.function.arguments | tojson }}",
}


@pytest.mark.parametrize("way", WRITTEN)
@pytest.mark.parametrize("given", [{"a": 1, "b": "x y"}, '{"a": 1, "b": "x y"}'], ids=["object", "text"])
def test_arguments_of_calls_are_written_as_json_however_data_and_template_have_them(way: str, given: Any, tmp_path: Path) -> None:
    """Text of APIs was quoted again by most templates, or ended in Jinja's error; an object ended in a template that joins text."""
    made = tokenizer(PLAIN.replace("<eos>", "{% for c in m.tool_calls %}" + WRITTEN[way] + "{% endfor %}<eos>", 1))
    calls = [{"type": "function", "function": {"name": "f", "arguments": given}}]
    talk = [TALK[0], {"role": "assistant", "content": "", "tool_calls": calls}]
    asked = read(tmp_path, talk)
    assert made.decode(encode_prompt(made, asked).ids) == 'u(1 2<eos>a({"a": 1, "b": "x y"}<eos>a('


def test_arguments_that_are_no_object_of_json_stay_as_they_are(tmp_path: Path) -> None:
    talk = [TALK[0], {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": "[1"}}, {"name": "g"}]}]
    prompt = read(tmp_path, talk)
    assert prompt.messages[1]["tool_calls"] == [{"function": {"name": "f", "arguments": "[1"}}, {"name": "g"}]


def test_what_a_person_said_does_not_decide_how_arguments_are_written(tmp_path: Path) -> None:
    """The words of the user look as Python prints the arguments, and the template writes JSON."""
    made = tokenizer(PLAIN.replace("<eos>", "{% for c in m.tool_calls %}" + WRITTEN["tojson"] + "{% endfor %}<eos>", 1))
    calls = [{"type": "function", "function": {"name": "f", "arguments": {"a": "x"}}}]
    asked = read(tmp_path, [{"role": "user", "content": "{'a': 'x'}"}, {"role": "assistant", "content": "", "tool_calls": calls}])
    assert made.decode(encode_prompt(made, asked).ids) == "u({'a': 'x'}<eos>a({\"a\": \"x\"}<eos>a("


@pytest.mark.parametrize("calls", [["f(1)"], "f(1)", [{"function": "f"}], [{"name": "f", "arguments": "[1"}, {"name": "g"}]])
def test_calls_in_a_form_of_their_own_reach_the_template_as_they_are(calls: Any, tmp_path: Path) -> None:
    made = tokenizer(PLAIN.replace("<eos>", "{{ m.tool_calls | tojson if m.tool_calls }}<eos>", 1))
    asked = read(tmp_path, [TALK[0], {"role": "assistant", "content": "", "tool_calls": calls}])
    assert made.decode(encode_prompt(made, asked).ids) == f"u(1 2<eos>a({json.dumps(calls)}<eos>a("
