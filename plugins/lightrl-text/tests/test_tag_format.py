from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lightrl_text import TagFormat

from lightrl import Prompt

PROMPT = Prompt(id="p", text="?")
PROSE = st.text(alphabet="ab1 \n.,", max_size=20)


@pytest.mark.parametrize(
    ("completion", "score"),
    [
        ("<think>a</think><answer>b</answer>", 1.0),
        ("\n<think>\na\n</think>\n\n<answer> b </answer>\n", 1.0),
        ("<think></think><answer></answer>", 1.0),
        ("so <think>a</think><answer>b</answer>", 2 / 3),
        ("<think>a</think> so <answer>b</answer>", 2 / 3),
        ("<answer>b</answer><think>a</think>", 2 / 3),
        ("<think>a<answer>b</answer></think>", 2 / 3),
        ("<think>a<answer>b</think></answer>", 2 / 3),
        ("<think>a</think>b", 1 / 3),
        ("<think>a</think><answer>b", 1 / 3),
        ("<think>a</think><think>a</think><answer>b</answer>", 1 / 3),
        ("</think>a<think><answer>b</answer>", 1 / 3),
        ("<Think>a</Think>", 0.0),
        ("", 0.0),
    ],
)
def test_a_third_for_each_tag_and_for_the_order(completion: str, score: float) -> None:
    assert TagFormat().score(PROMPT, completion) == pytest.approx(score)
    assert TagFormat(strict=True).score(PROMPT, completion) == float(score == 1.0)


@pytest.mark.parametrize(("steps", "met"), [(0, 0.0), (1, 0.5), (2, 1.0), (3, 1.0), (4, 1.0), (8, 0.5)])
def test_the_number_of_steps(steps: int, met: float) -> None:
    lines = "\n\n".join(f"step {i}" for i in range(steps))
    reward = TagFormat(min_steps=2, max_steps=4)
    assert reward.score(PROMPT, f"<think>\n{lines}\n</think><answer>x</answer>") == pytest.approx((3 + met) / 4)
    assert reward.score(PROMPT, f"<think>{lines}") == 0.0


@given(PROSE, PROSE, PROSE)
def test_the_form_is_the_form_whatever_stands_in_it(thought: str, answer: str, between: str) -> None:
    whole = TagFormat().score(PROMPT, f"<think>{thought}</think>{between}<answer>{answer}</answer>")
    assert whole == (1.0 if not between.strip() else pytest.approx(2 / 3))


@given(st.lists(st.sampled_from(["<think>", "</think>", "<answer>", "</answer>", "a", "\n"]), max_size=12).map("".join))
def test_every_text_scores_within_the_unit_interval(text: str) -> None:
    assert 0.0 <= TagFormat(min_steps=1).score(PROMPT, text) <= 1.0
    assert (TagFormat().score(PROMPT, text) == 1.0) == (TagFormat(strict=True).score(PROMPT, text) == 1.0)


@given(st.lists(st.sampled_from(["<think>", "</think>", "<answer>", "</answer>", "a", "\n"]), max_size=12).map("".join))
def test_an_opening_tag_in_the_prompt_counts(text: str) -> None:
    assert TagFormat(opened=True).score(PROMPT, text) == TagFormat().score(PROMPT, f"<think>{text}")


def test_other_tags() -> None:
    reward = TagFormat(tags=("plan", "code", "final-answer"))
    assert reward.score(PROMPT, "<plan>a</plan><code>b</code><final-answer>c</final-answer>") == 1.0
    assert reward.score(PROMPT, "<plan>a</plan><code>b</code>") == 0.5


@pytest.mark.parametrize(
    "arguments",
    [{"tags": ()}, {"tags": ("a", "a")}, {"tags": ("a b",)}, {"min_steps": -1}, {"min_steps": 3, "max_steps": 2}, {"max_steps": 0}],
)
def test_what_cannot_be_asked_for(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="TagFormat"):
        TagFormat(**arguments)
