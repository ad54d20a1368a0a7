"""Arguments of a chat template become part of it: in training, and in the folder that is served."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from lightrl import PretrainedPolicy, TinyPolicy
from lightrl.text.chat_template import with_arguments

TEMPLATE = """  {%- macro shown(m) %}{{ m.role }}={{ m.content }};{% endmacro %}
{%- for m in messages %}{% if m.role == "pause" %}{% break %}{% endif %}{{ shown(m) }}{% endfor %}
{%- if add_generation_prompt %}{{ bos_token }}assistant={% if enable_thinking is defined and enable_thinking is false %}-{% endif %}
{%- generation %}{{ effort | default("high") }}{% endgeneration %}{% endif %}"""
ASKED = [{"role": "user", "content": "12"}]


@pytest.fixture
def folder(tmp_path: Path) -> str:
    policy = TinyPolicy(hidden=8, layers=1, heads=1).build()
    policy.tokenizer.chat_template = TEMPLATE
    policy.save(tmp_path / "policy")
    return str(tmp_path / "policy")


def rendered(tokenizer: Any, **arguments: Any) -> str:
    text: str = tokenizer.apply_chat_template(ASKED, tokenize=False, add_generation_prompt=True, **arguments)
    return text


@pytest.mark.parametrize(
    "arguments",
    [{"enable_thinking": False}, {"enable_thinking": True, "effort": 'lo"w'}, {"effort": None}, {"effort": {"n": [1, 2.5e-7]}}, {}],
)
def test_a_rendering_is_that_of_transformers_with_the_arguments(folder: str, arguments: dict[str, Any]) -> None:
    plain = AutoTokenizer.from_pretrained(folder)
    assert rendered(PretrainedPolicy(folder, chat_template_kwargs=arguments).tokenizer()) == rendered(plain, **arguments)


def test_a_saved_policy_renders_as_it_was_trained_and_may_be_asked_otherwise(folder: str, tmp_path: Path) -> None:
    PretrainedPolicy(folder, chat_template_kwargs={"enable_thinking": False}).build().save(tmp_path / "trained")
    served = AutoTokenizer.from_pretrained(tmp_path / "trained")
    assert rendered(served) == "user=12;assistant=-high"
    assert rendered(served, enable_thinking=True) == "user=12;assistant=high"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("enable_thinkin", "has no such argument; it has effort, enable_thinking"),
        ("add_generation_prompt", "each rendering gives it itself"),
        ("bos_token", "has no such argument"),
    ],
)
def test_an_argument_that_the_template_does_not_read_is_refused(folder: str, name: str, words: str) -> None:
    with pytest.raises(ValueError, match=rf"chat_template_kwargs\.{name}: .*{words}"):
        PretrainedPolicy(folder, chat_template_kwargs={name: True}).tokenizer()


def test_a_tokenizer_without_a_template_has_no_arguments() -> None:
    with pytest.raises(ValueError, match="no chat template that could take them"):
        with_arguments(None, {"enable_thinking": False})


@settings(max_examples=20)
@given(st.text(" \n", max_size=4), st.text(" \n", max_size=4))
def test_white_space_of_the_template_is_kept(before: str, after: str) -> None:
    tokenizer: Any = TinyPolicy(hidden=8, layers=1, heads=1).tokenizer()
    template = before + "{% if x is defined and x %}\n  {% set y = 1 %}\n{{ messages[0].content }}" + after + "{% endif %}"
    tokenizer.chat_template = template
    wanted = rendered(tokenizer, x=True)
    tokenizer.chat_template = with_arguments(template, {"x": True})
    assert rendered(tokenizer) == wanted


def test_named_templates_have_them_all(folder: str) -> None:
    both = with_arguments({"default": "{{ x }}", "tool_use": "{{ x }}{{ tools }}"}, {"x": 1})
    assert both == {
        name: "{% if x is not defined %}{% set x = 1 %}{% endif %}\n" + text
        for name, text in {"default": "{{ x }}", "tool_use": "{{ x }}{{ tools }}"}.items()
    }
