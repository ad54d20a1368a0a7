"""The tokens of what the assistant wrote, by any chat template."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightrl.policy.tiny import character_tokenizer
from lightrl.text.turns import tokenize_turns

PLAIN = "{% for m in messages %}{{ m.role[0] }}({{ m.content }}<eos> {% endfor %}{% if add_generation_prompt %}a({% endif %}"
MARKED = (
    "{% for m in messages %}{{ m.role[0] }}({% if m.role == 'assistant' %}{% generation %}{{ m.content }}<eos>{% endgeneration %}"
    "{% else %}{{ m.content }}<eos>{% endif %} {% endfor %}{% if add_generation_prompt %}a({% endif %}"
)
OPEN = "{% for m in messages %} {{ m.role[0] }}({{ m.content }}){% endfor %}{% if add_generation_prompt %} a({% endif %}"
FORGETFUL = (
    "{% for m in messages %}{{ m.role[0] }}({% if m.role == 'assistant' and not loop.last %}.{% else %}{{ m.content }}{% endif %}<eos>"
    "{% endfor %}{% if add_generation_prompt %}a({% endif %}"
)
EOS = 1


def tokenizer(template: str | None) -> Any:
    made = character_tokenizer("0123456789abcdefghijklmnopqrstuvwxyz(). ", 512)
    made.chat_template = template
    return made


def talk(*contents: str, first: str = "user") -> list[dict[str, str]]:
    roles = ["user", "assistant"] if first == "user" else ["assistant", "user"]
    return [{"role": roles[i % 2], "content": content} for i, content in enumerate(contents)]


def written(template: str, messages: list[dict[str, str]], *wanted: int) -> list[str]:
    made = tokenizer(template)
    turns = tokenize_turns(made, messages, wanted, {EOS}, EOS)
    return [made.decode([turns.ids[i] for i in turns.written[turn]]) for turn in wanted]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text("abc0. (", max_size=6), min_size=2, max_size=6).filter(lambda texts: len(texts) % 2 == 0))
def test_each_turn_is_what_was_said_and_its_eos(texts: list[str]) -> None:
    messages, answers = talk(*texts), range(1, len(texts), 2)
    expected = [f"{texts[i]}<eos>" for i in answers]
    assert written(PLAIN, messages, *answers) == expected == written(MARKED, messages, *answers)
    made = tokenizer(PLAIN)
    assert tokenize_turns(made, messages, answers, {EOS}, EOS).ids == made.apply_chat_template(messages, return_dict=False)


def test_a_template_without_eos_gets_one_at_its_end() -> None:
    messages = talk("1", "2", "3", "4")
    assert written(OPEN, messages, 1, 3) == ["2)", "4)<eos>"]
    ids = tokenize_turns(made := tokenizer(OPEN), messages, [], {EOS}, EOS).ids
    assert made.decode(ids) == " u(1) a(2) u(3) a(4)<eos>"


def test_a_template_that_changes_earlier_turns_is_refused_unless_they_are_not_wanted() -> None:
    messages = talk("1", "22", "3", "44")
    assert written(FORGETFUL, messages, 3) == ["44<eos>"]
    with pytest.raises(ValueError, match=r"message 2 .*'\.<eos>.*'22<eos>"):
        written(FORGETFUL, messages, 1, 3)


def test_marks_must_belong_to_messages() -> None:
    only_last = MARKED.replace("m.role == 'assistant'", "loop.last")
    with pytest.raises(ValueError, match=r"\{% generation %\}"):
        written(only_last, talk("1", "2", "3", "4"), 3)


def test_who_answers_nothing_and_who_has_no_template() -> None:
    with pytest.raises(ValueError, match="assistant"):
        written(PLAIN, talk("1", "2", "3", first="assistant"), 0, 2)
    assert written(PLAIN, talk("1", "2", "3", first="assistant"), 2) == ["3<eos>"]
    with pytest.raises(ValueError, match=r"model\.policy"):
        tokenize_turns(tokenizer(None), talk("1", "2"), [1], {EOS}, EOS)


def test_byte_pairs_that_are_merged_over_the_turn_stay_whole() -> None:
    spec = importlib.util.spec_from_file_location("make_tiny_qwen", Path(__file__).parents[2] / "examples" / "make_tiny_qwen.py")
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    qwen = example.train_tokenizer(iter(["assistant\n\n\nYes, two é 🙂 eggs"] * 9), example.SIZES["test"])
    end = qwen.eos_token_id
    for content in ("Yes, two eggs", "\n\nYes", " é 🙂", ""):
        turns = tokenize_turns(qwen, messages := talk("Eggs?", content, "Sure?", "Yes"), [1, 3], {end}, end)
        assert turns.ids == qwen.apply_chat_template(messages, return_dict=False)
        said = [qwen.decode([turns.ids[i] for i in turns.written[turn]]) for turn in (1, 3)]
        # a line break may be merged with the one that opens the answer, and is then sampled with it
        assert [text.lstrip("\n") for text in said] == [f"{content.lstrip(chr(10))}<|im_end|>", "Yes<|im_end|>"]
        assert turns.written[3].stop == len(turns.ids) - 1
