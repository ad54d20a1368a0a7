"""The choice among a prompt's completions."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st
from lightrl_rft.sample.rejection import Candidate, keep_all, keep_best, keep_pairs, ranked, rejection_counts


def candidate(text: str, reward: float, logprob: float = -1.0, finish_reason: str = "stop") -> Candidate:
    return Candidate(text, reward, logprob, finish_reason, {"tokens": 3})


FOUR = [
    candidate("good", 1.0, -2.0), candidate("likelier", 1.0, -1.0), candidate("bad", 0.0), candidate("likelier", 1.0, -1.0),
    candidate("cut", 1.0, finish_reason="length"), candidate(" ", 1.0), candidate("failed", math.nan), candidate("half", 0.5),
]  # fmt: skip


def test_the_best_is_the_likeliest_of_equals_and_the_same_text_counts_once() -> None:
    assert [c.text for c in ranked(FOUR)] == ["likelier", "good", "half", "bad"]
    assert keep_best(FOUR) == [{"tokens": 3, "completion": "likelier", "finish_reason": "stop", "reward": 1.0}]
    assert [row["completion"] for row in keep_best(FOUR, None, 0.5)] == ["likelier", "good", "half"]
    assert [row["completion"] for row in keep_best(FOUR, 2, 0.5)] == ["likelier", "good"]
    assert keep_best(FOUR, 1, 1.5) == []
    assert keep_best([]) == []


def test_pairs_are_the_best_against_the_worst_and_differ_by_more_than_the_margin() -> None:
    (pair,) = keep_pairs(FOUR)
    assert pair == {"chosen": "likelier", "rejected": "bad", "chosen_reward": 1.0, "rejected_reward": 0.0, "margin": 1.0}
    assert [(row["chosen"], row["rejected"]) for row in keep_pairs(FOUR, None)] == [("likelier", "bad"), ("good", "half")]
    assert [row["rejected"] for row in keep_pairs(FOUR, None, 0.5)] == ["bad"]
    assert keep_pairs([candidate("a", 1.0), candidate("b", 1.0)]) == []
    assert keep_pairs([candidate("a", 1.0)]) == []


def test_all_are_kept_with_null_for_what_could_not_be_scored() -> None:
    assert [row["reward"] for row in keep_all(FOUR)] == [1.0, 1.0, 0.0, 1.0, 1.0, 1.0, None, 0.5]


def test_what_became_of_a_prompt_by_hand() -> None:
    assert rejection_counts(FOUR, kept=1, right=0.5) == {
        "prompts": 1, "completions": 8, "failed": 1, "cut": 1, "blank": 1, "duplicates": 1, "kept": 1, "without": 0,
        "reward": 5.5, "pass_1": 5 / 8, "pass_n": 1,
    }  # fmt: skip
    nothing = rejection_counts([candidate("a", 0.0)], kept=0, right=0.0)
    assert (nothing["without"], nothing["pass_1"], nothing["pass_n"]) == (1, 0, 0)


@given(
    st.lists(
        st.builds(
            candidate, st.sampled_from(["a", "b", "c", "d", "e"]), st.sampled_from([0.0, 0.25, 1.0, math.nan]), st.floats(-9, 0),
            st.sampled_from(["stop", "stop", "length"]),
        )
    ),
    st.sampled_from([0.0, 0.5, 0.75]),
)  # fmt: skip
def test_whatever_is_compared_differs_in_text_and_reward(candidates: list[Candidate], margin: float) -> None:
    pairs = keep_pairs(candidates, None, margin)
    texts = [text for pair in pairs for text in (pair["chosen"], pair["rejected"])]
    assert len(set(texts)) == len(texts)
    assert all(pair["chosen_reward"] - pair["rejected_reward"] == pair["margin"] > margin for pair in pairs)
    rewards = {c.reward for c in candidates if c.usable}
    if not pairs and len({c.text for c in candidates if c.usable}) > 1:
        best, worst = ranked(candidates)[0], ranked(candidates)[-1]
        assert best.reward - worst.reward <= margin
    assert keep_best(candidates, None, 0.5) == [] or max(rewards) >= 0.5
