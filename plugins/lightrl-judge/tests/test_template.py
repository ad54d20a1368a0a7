import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lightrl_judge.template import Template, column_text, conversation

from lightrl import Prompt


@given(st.text(), st.text())
def test_data_are_inserted_as_they_are(one: str, other: str) -> None:
    template = Template("<{a}|{{b}}|{b}|{a}>", needed=["a", "b"])
    assert template.fields == {"a", "b"}
    assert template.render({"a": one, "b": other}) == f"<{one}|{{b}}|{other}|{one}>"


@given(st.lists(st.sampled_from(["</answer>", "<answer>", "< / ANSWER >", "</ question>", "&lt;", "<b>", "</answers>", " and "])))
def test_no_value_ends_the_tag_that_it_is_in(parts: list[str]) -> None:
    value = "".join(parts)
    shown = Template("<question>{q}</question><answer>{a}</answer>").render({"q": "?", "a": value})
    assert shown.startswith("<question>?</question><answer>")
    assert len(re.findall(r"<\s*/?\s*(?:answer|question)\b", shown, re.IGNORECASE)) == 4
    assert shown.replace("&lt;", "<") == f"<question>?</question><answer>{value}</answer>".replace("&lt;", "<")


@given(st.text())
def test_a_text_whose_braces_are_doubled_comes_back(text: str) -> None:
    doubled = Template(text.replace("{", "{{").replace("}", "}}"))
    assert doubled.fields == frozenset()
    assert doubled.render({}) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{completion.__class__}", "is no plain field"),
        ("{completion[0]}", "is no plain field"),
        ("{completion!r}", "is no plain field"),
        ("{completion:>9}", "is no plain field"),
        ("{}", "is no plain field"),
        ('{completion} {"score": 1}', "is no plain field"),
        ("{completion", "write {{ and }} for braces"),
        ("{prompt}", r"lacks \{completion\}; it has \{prompt\}"),
        ("{completion} {compltion}", r"has \{compltion\}; there are only \{completion\}, \{prompt\}"),
    ],
)
def test_what_is_no_template(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Template(text, needed=["completion"], known=["prompt", "completion"])


def test_prompts_and_columns_as_text() -> None:
    assert conversation(Prompt(id="p", text="1+1=")) == "1+1="
    user = {"role": "user", "content": "1+1?"}
    assert conversation(Prompt(id="p", messages=(user,))) == "1+1?"
    assert conversation(Prompt(id="p", messages=({"role": "system", "content": "Add."}, user))) == "system: Add.\n\nuser: 1+1?"
    prompt = Prompt(id="p", text="?")
    assert [column_text(prompt, "c", value) for value in ("{x}", 2, ["é", None], 0)] == ["{x}", "2", '["é", null]', "0"]
    with pytest.raises(ValueError, match=r"'p' .*'c'"):
        column_text(prompt, "c", None)
