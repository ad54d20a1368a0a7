"""What a policy reads of earlier turns without their thoughts, in the tokens that it sampled."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightrl import TinyPolicy
from lightrl.ops.thoughts import MARKS, mark_left_open
from lightrl.policy.policy import Policy
from lightrl.text.stripped_turns import StrippedTurns

LETTERS = "0123456789+=<>/think "


@pytest.fixture(scope="module")
def policy() -> Policy:
    return TinyPolicy(hidden=16, layers=1, alphabet=LETTERS).build()


def history(policy: Policy, context: str, turn: str) -> str:
    """The text of what is read later."""
    return policy.tokenizer.decode(ids_of_history(policy, ids(policy, context), ids(policy, turn)))


def ids_of_history(policy: Policy, context: Sequence[int], turn: Sequence[int]) -> list[int]:
    said = policy.decode(turn)
    text = mark_left_open(policy.tokenizer.decode(context), said) + said
    return StrippedTurns(policy.tokenizer, policy.decode).history(context, turn, text)


def ids(policy: Policy, text: str) -> list[int]:
    found: list[int] = policy.tokenizer(text, add_special_tokens=False)["input_ids"]
    return found


@pytest.mark.parametrize(
    ("context", "turn", "read"),
    [
        ("1+1=", "2", "1+1=2"),
        ("1+1=", " 2 ", "1+1= 2 "),
        ("1+1=", "<think>3</think>2", "1+1=2"),
        ("1+1=", "<think>3</think>  2 ", "1+1=2 "),
        ("1+1=<think>", "3</think>2", "1+1=2"),
        ("1+1=<think> ", "3</think> 2", "1+1=2"),
        ("1+1=<think> ", "3", "1+1="),
        ("1+1=", "<think>3", "1+1="),
        ("1+1=", "<think>3</think>", "1+1="),
        ("1+1=", "<think>2</think>2<think>2", "1+1=2"),
        ("1+1=", "1</think>3<think>4</think>2", "1+1=2"),
        ("1+1=<think>  </think> ", "2", "1+1=<think>  </think> 2"),
        ("<think>", "", ""),
    ],
)
def test_a_history_has_answers_and_no_thoughts(policy: Policy, context: str, turn: str, read: str) -> None:
    assert history(policy, context, turn) == read


@given(st.text(LETTERS, max_size=12), st.text("0123456789 ", max_size=12), st.text("0123456789+ ", min_size=1, max_size=12))
def test_the_answer_keeps_its_tokens(policy: Policy, context: str, thought: str, answer: str) -> None:
    before, said = ids(policy, context), ids(policy, f"<think>{thought}</think>{answer}")
    if not any(context.rstrip().endswith(mark) for mark in MARKS):
        assert ids_of_history(policy, before, said) == [*before, *ids(policy, answer.lstrip())]


class Pairs:
    """A tokenizer in which `>2` is one token, the end of a thought and the beginning of an answer."""

    tokens = ("<think>", "3", "</think", ">2", "4", ">", "2")

    def get_vocab(self) -> dict[str, int]:
        return {token: number for number, token in enumerate(self.tokens)}

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        return "".join(self.tokens[i] for i in ids)

    def __call__(self, text: str, add_special_tokens: bool = True) -> dict[str, list[int]]:
        return {"input_ids": [self.tokens.index(letter) for letter in text]}


def test_an_answer_that_shares_a_token_with_the_end_of_its_thought_is_encoded_anew() -> None:
    tokenizer = Pairs()
    stripped = StrippedTurns(tokenizer, tokenizer.decode)  # type: ignore[arg-type]
    assert stripped.history([4], [0, 1, 2, 3, 4], "<think>3</think>24") == [4, 6, 4]


def test_a_policy_that_thinks_in_messages_is_refused() -> None:
    policy = TinyPolicy(hidden=16, layers=1).build()
    policy.tokenizer.add_special_tokens({"additional_special_tokens": ["<|channel|>", "<|message|>"]})
    with pytest.raises(ValueError, match=r"environment\.thoughts"):
        StrippedTurns(policy.tokenizer, policy.decode)
