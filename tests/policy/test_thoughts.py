"""Thoughts, by the marks of each family: they are shown to rewards, and are no answers."""

from __future__ import annotations

import pytest

from lightrl import ExactMatch, Prompt, SingleTurn, TinyPolicy, TransformersEngine, without_thoughts
from lightrl.ops.thoughts import MARKS, mark_left_open
from lightrl.policy.policy import Policy
from lightrl.policy.weights import TrainerWeights
from lightrl.rollout.loop import RolloutLoop

PROMPT = Prompt(id="a", text="1+1=", answer="2")
HARMONY = "<|channel|>analysis<|message|>3?<|end|><|start|>assistant<|channel|>final<|message|>2"


@pytest.mark.parametrize("begin", MARKS)
def test_what_is_only_thought_is_no_answer_in_any_family(begin: str) -> None:
    end = MARKS[begin]
    assert without_thoughts(f"{begin}3{end}2") == "2"
    assert without_thoughts(f"2{begin}3") == "2"
    assert without_thoughts(f"{begin}2{end}") == without_thoughts(f"{begin}2") == ""
    assert without_thoughts(f"{begin}1{end}3{begin}4{end}2") == "2"


def test_a_final_channel_is_the_answer() -> None:
    assert without_thoughts(HARMONY) == "2"
    assert without_thoughts(HARMONY.partition("<|end|>")[0]) == ""


def test_a_call_behind_an_analysis_is_no_thought() -> None:
    thought, said = "<|channel|>analysis<|message|>3?<|end|>", '<|channel|>commentary to=functions.f json<|message|>{"x": 1}'
    assert without_thoughts(f"{thought}<|start|>assistant{said}") == f"<|start|>assistant{said}"
    assert without_thoughts(f"{thought}<|start|>assistant{said}<|call|>{thought}") == f"<|start|>assistant{said}<|call|>"
    assert without_thoughts(f"{thought}<|start|>assistant{said}<|end|>{HARMONY}") == "2"


def test_exact_match_compares_the_answer_and_not_the_thoughts() -> None:
    reward = ExactMatch()
    assert reward.score(PROMPT, "<think>3</think>\n2", answer="2") == 1.0
    assert reward.score(PROMPT, "<think>2</think>3", answer="2") == reward.score(PROMPT, "<think>2", answer="2") == 0.0
    assert reward.answer_in("<think>2") is None


@pytest.mark.parametrize("begin", MARKS)
def test_a_thought_that_the_template_opened_is_left_open_until_its_end(begin: str) -> None:
    assert mark_left_open(f"user: 1+1\nassistant: {begin}\n", "2") == begin
    assert mark_left_open(f"{begin}\n", f"3{MARKS[begin]}2") == ""
    assert mark_left_open(f"{begin}3{MARKS[begin]}\n\n", "2") == ""
    assert mark_left_open("assistant: ", "2") == ""


@pytest.fixture
def thinker() -> Policy:
    """A policy whose tokenizer has the marks of thoughts as special tokens, beside others."""
    policy = TinyPolicy(hidden=16, layers=1).build()
    names = ["[THINK]", "[/THINK]", "<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|other|>"]
    policy.tokenizer.add_special_tokens({"additional_special_tokens": names})
    return Policy(policy.model, policy.tokenizer)


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        (["[THINK]", "3", "[/THINK]", "2"], "[THINK]3[/THINK]2"),
        (["<|other|>", "2", "<eos>"], "2"),
        (["[THINK]", "3"], "[THINK]3"),
        ([], ""),
    ],
)
def test_marks_that_are_special_tokens_are_decoded_and_no_others(thinker: Policy, pieces: list[str], shown: str) -> None:
    assert thinker.decode([thinker.tokenizer.convert_tokens_to_ids(piece) for piece in pieces]) == shown


def test_m1_a_turn_that_is_cut_off_in_a_thought_that_its_prompt_opened_is_no_answer() -> None:
    policy = TinyPolicy(hidden=16, layers=1, alphabet="0123456789+=<>/think").build().eval()
    loop = RolloutLoop(TransformersEngine(max_new_tokens=4), SingleTurn())
    loop.update_weights(TrainerWeights(policy), 0)
    thinking, answering = (loop.rollout([Prompt(id="a", text=text)], 8).completions for text in ("1+1=<think>", "1+1="))
    assert all(completion.startswith("<think>") and without_thoughts(completion) == "" for completion in thinking)
    assert not any(completion.startswith("<think>") for completion in answering)
