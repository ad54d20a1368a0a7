"""Process supervision: two completions, steps by hand, and what must not matter."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lightrl_grpo import StepNormalized
from lightrl_workshop.experience import PROMPT, experience

from lightrl import GroupNormalized
from lightrl.types import Experience


def steps(rows: list[dict[int, float]], lengths: list[int], **more) -> Experience:
    """Rows whose steps end at these response positions with these rewards."""
    width = PROMPT + max(lengths) + more.get("padding", 0)
    rewards, ends = torch.zeros(len(rows), width), torch.zeros(len(rows), width, dtype=torch.bool)
    for i, row in enumerate(rows):
        for position, reward in row.items():
            rewards[i, PROMPT + position], ends[i, PROMPT + position] = reward, True
    return experience([0.0] * len(rows), lengths=lengths, token_rewards=rewards, step_ends=ends, **more)


def of_rows(batch: Experience, **settings) -> list[list[float]]:
    out = StepNormalized(**settings).compute(batch).advantages
    assert (out[~batch.response_mask] == 0).all()
    return [out[i, batch.response_mask[i]].tolist() for i in range(len(batch))]


def test_by_hand() -> None:
    """Steps 0 at token 1 and 1 at token 3; 1 at token 2: mean 2/3, population deviation .471."""
    first, second = of_rows(steps([{1: 0.0, 3: 1.0}, {2: 1.0}], [4, 3]), ddof=0, eps=0)
    assert first == pytest.approx([-0.707107, -0.707107, 0.707107, 0.707107], abs=1e-5)
    assert second == pytest.approx([0.707107] * 3, abs=1e-5)


@given(st.lists(st.floats(-3, 3, width=16), min_size=2, max_size=6))
def test_with_one_reward_at_the_end_it_is_the_groups_normalisation(rewards: list[float]) -> None:
    batch = experience(rewards)
    here, there = (part.compute(batch).advantages for part in (StepNormalized(), GroupNormalized()))
    assert torch.allclose(here, there, atol=1e-5)


def test_a_step_of_reward_zero_counts_and_a_kl_between_steps_does_not() -> None:
    batch = steps([{1: 0.0, 3: 1.0}, {2: 1.0}], [4, 3])
    plain = of_rows(batch)
    batch.token_rewards[:, PROMPT] = 9.0
    assert of_rows(batch) == plain


@pytest.mark.parametrize("rows", [[{2: 0.1}, {2: 0.1}], [{0: 0.5, 2: 0.5}, {1: 0.5}], [{2: 1.0}, {}]])
def test_steps_that_are_all_equal_teach_nothing(rows: list[dict[int, float]]) -> None:
    assert of_rows(steps(rows, [3, 3])) == [[0.0] * 3] * 2


def test_a_row_that_cannot_be_scored_leaves_no_trace() -> None:
    alone = of_rows(steps([{0: 1.0}, {1: 0.0}], [2, 2]))
    joined = of_rows(steps([{0: 1.0}, {1: 0.0}, {1: torch.nan}], [2, 2, 2], scorable=[True, True, False], padding=2))
    assert joined == [*alone, [0.0, 0.0]]


def test_groups_are_kept_apart_whatever_their_numbers() -> None:
    rows = [{1: 1.0}, {1: 0.0}, {0: 5.0, 1: 7.0}, {1: 6.0}]
    one = of_rows(steps(rows, [2] * 4, group=[0, 0, 1, 1]))
    other = of_rows(steps([rows[i] for i in (2, 0, 3, 1)], [2] * 4, group=[9, 4, 9, 4]))
    assert other == [one[i] for i in (2, 0, 3, 1)]


@pytest.mark.parametrize("settings", [{"ddof": 2}, {"eps": -1.0}])
def test_impossible_settings_are_refused(settings: dict) -> None:
    with pytest.raises(ValueError, match=rf"StepNormalized needs .*{next(iter(settings))} "):
        StepNormalized(**settings)


def test_a_row_without_response_tokens_is_one_step() -> None:
    found = StepNormalized().compute(experience([1.0, 0.0, 4.0], lengths=[2, 3, 0])).advantages
    expected = GroupNormalized().compute(experience([1.0, 0.0, 4.0], lengths=[2, 3, 1])).advantages
    assert found[:2, PROMPT].tolist() == pytest.approx(expected[:2, PROMPT].tolist())
