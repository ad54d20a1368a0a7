"""Minibatches of whole groups, or of rows one by one: `minibatch_of`."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lightrl_workshop import CodePoints, ReplayedRollouts, hand_made_experience, quiet_trainer, random_rollout

from lightrl import (
    DigitSorting,
    GroupRelative,
    GroupSampler,
    MaskTruncated,
    PolicyOptimization,
    PromptData,
    SequenceSumTokenMean,
    TinyPolicy,
    TransformersEngine,
)
from lightrl.training.online.policy_learner import minibatches_of


def cut(group: list[int], passes: int, seed: int, **values: Any) -> list[list[int]]:
    """The rows of each minibatch, by their numbers, which are the rewards."""
    rows = hand_made_experience(list(map(float, range(len(group)))), group=group)
    return [part.rewards.long().tolist() for part in minibatches_of(rows, range(passes), GroupRelative(**values), (seed, 0))]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.integers(1, 8), st.integers(1, 3), st.integers(0, 99))
def test_minibatches_of_rows_cover_each_pass_once_in_even_parts(group: list[int], count: int, passes: int, seed: int) -> None:
    found = cut(group, passes, seed, minibatches=count, minibatch_of="rows")
    # as many on every rank, however many rows it has
    assert len(found) == passes * count
    for number in range(passes):
        parts = found[number * count : (number + 1) * count]
        assert sorted(row for part in parts for row in part) == list(range(len(group)))
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert found == cut(group, passes, seed, minibatches=count, minibatch_of="rows")


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.integers(0, 99))
def test_one_minibatch_of_rows_is_that_of_groups(group: list[int], seed: int) -> None:
    assert cut(group, 2, seed, minibatch_of="rows") == cut(group, 2, seed) == [list(range(len(group)))] * 2


def test_the_order_of_rows_follows_seed_and_pass_and_mixes_groups() -> None:
    group = [number for number in range(8) for _ in range(4)]
    first, second = (cut(group, 2, seed, minibatches=4, minibatch_of="rows") for seed in (1, 2))
    assert first != second
    assert first[:4] != first[4:]
    assert max(len({group[row] for row in part}) for part in first) > 2
    assert {len({group[row] for row in part}) for part in cut(group, 2, 1, minibatches=4)} == {2}


def module(prompts: int, **values: Any) -> PolicyOptimization:
    return PolicyOptimization(
        policy=TinyPolicy(hidden=16, layers=1, heads=2),
        algorithm=GroupRelative(sampler=GroupSampler(group_size=4), **values),
        rewards={"codes": CodePoints()},
        engine=TransformersEngine(max_new_tokens=8),
        prompts_per_rollout=prompts,
        optimizer=lambda p: torch.optim.SGD(p, lr=0.1),
    )


def test_more_minibatches_than_prompts_are_possible_with_rows() -> None:
    subject = module(2, minibatches=8, minibatch_of="rows")
    subject.collector.rollouts = ReplayedRollouts(random_rollout(TinyPolicy(hidden=16, layers=1, heads=2).build(), groups=2, group_size=4))
    trainer = quiet_trainer(max_epochs=1)
    trainer.fit(subject, datamodule=PromptData(train=DigitSorting(examples=20)))
    assert trainer.global_step == 8
    with pytest.raises(ValueError, match=r"is 2 with 4 completions each, but algorithm.minibatches is 9.* at least one row: raise"):
        module(2, minibatches=9, minibatch_of="rows")


class BestOfRollout(MaskTruncated):
    """Compares once, over the whole rollout."""

    compares = True


class BestOfStep(BestOfRollout):
    """Compares in each step."""

    gives = frozenset({"best"})


def test_a_token_weight_that_compares_within_a_step_is_refused_with_rows() -> None:
    GroupRelative(token_weight=BestOfRollout(), minibatches=2, minibatch_of="rows")
    with pytest.raises(ValueError, match="BestOfStep in token_weight needs all completions of a prompt in one optimizer step"):
        GroupRelative(token_weight=BestOfStep(), minibatches=2, minibatch_of="rows")


def test_a_part_that_counts_prompts_is_refused_with_rows() -> None:
    """Its weights are 1 / (P L_i): a prompt whose rows are spread over two steps would be one of the P of each."""
    per_prompt = SequenceSumTokenMean()
    with pytest.raises(ValueError, match="SequenceSumTokenMean in aggregation needs all completions of a prompt in one optimizer step"):
        GroupRelative(aggregation=per_prompt, minibatches=2, minibatch_of="rows")
    for fine in ({"minibatches": 1, "minibatch_of": "rows"}, {"minibatches": 2}):
        GroupRelative(aggregation=per_prompt, **fine)
    GroupRelative(aggregation=SequenceSumTokenMean(over="batch"), minibatches=2, minibatch_of="rows")


def test_another_word_is_refused() -> None:
    with pytest.raises(ValueError, match="GroupRelative needs minibatch_of to be 'groups' or 'rows', got minibatch_of='row'"):
        GroupRelative(minibatch_of="row")
