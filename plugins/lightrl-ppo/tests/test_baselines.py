"""Returns and what they are compared with."""

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lightrl_ppo import BatchCentered, GreedyCentered, MovingAverageCentered
from lightrl_workshop.experience import PROMPT, experience

from lightrl import DiscountedReturn, PolicyGradient


def tokens(part, rows) -> list[list[float]]:
    out = part.compute(rows).advantages
    assert (out[~rows.response_mask] == 0).all()
    return [out[i, rows.response_mask[i]].tolist() for i in range(len(rows))]


def with_token_rewards(values: list[list[float]], **more):
    lengths = [len(row) for row in values]
    wide = torch.zeros(len(values), PROMPT + max(lengths))
    for i, row in enumerate(values):
        wide[i, PROMPT : PROMPT + len(row)] = torch.tensor(row)
    return experience([0.0] * len(values), lengths=lengths, token_rewards=wide, **more)


def test_the_token_form_by_hand() -> None:
    rows = with_token_rewards([[1.0, 0.0, 2.0], [0.0, 4.0]])
    assert tokens(DiscountedReturn(gamma=0.5), rows) == [[1.5, 1.0, 2.0], [2.0, 4.0]]
    assert tokens(DiscountedReturn(), rows) == [[3, 2, 2], [4, 4]]


def test_gaps_in_the_response_cost_no_discount() -> None:
    rows = with_token_rewards([[0.0, 9.0, 2.0]])
    rows.response_mask[0, PROMPT + 1] = False
    assert DiscountedReturn(gamma=0.5).compute(rows).advantages[0, PROMPT:].tolist() == [1, 0, 2]


def test_vanilla_policy_gradient() -> None:
    """log-probs -1 and -2, return 3: a loss of 9 over the row."""
    rows = experience([3.0], lengths=[2])
    advantages = DiscountedReturn().compute(rows).advantages[:, PROMPT:]
    logprobs = torch.tensor([[-1.0, -2.0]])
    out = PolicyGradient().surrogate(0 * logprobs, advantages, logprobs, rows.response_mask[:, PROMPT:])
    assert out.loss.sum().item() == 9.0


def test_the_mean_of_the_batch() -> None:
    rows = experience([1.0, 0.0, 1.0, 5.0], lengths=[1, 2, 1, 1], scorable=[True, True, True, False])
    assert tokens(BatchCentered(), rows) == [pytest.approx([1 / 3]), pytest.approx([-2 / 3] * 2), pytest.approx([1 / 3]), [0]]


@given(st.floats(-3, 3, width=32), st.integers(1, 7))
def test_equal_rewards_teach_nothing(reward: float, rows: int) -> None:
    assert (BatchCentered().compute(experience([reward] * rows)).advantages == 0).all()


def test_the_moving_average_lags_one_rollout_behind() -> None:
    part = MovingAverageCentered(decay=0.75)
    assert tokens(part, experience([2.0, 4.0], lengths=[1, 1])) == [[-1], [1]]
    part.commit()
    assert tokens(part, experience([7.0], lengths=[1])) == [[4]]
    part.commit()
    assert part.state_dict() == {"average": 4.0}
    assert tokens(part, experience([4.5], lengths=[1])) == [[0.5]]


def test_without_a_step_the_average_stays() -> None:
    part = MovingAverageCentered()
    part.compute(experience([2.0]))
    part.commit()
    for _ in range(3):
        part.compute(experience([100.0]))
    assert part.state_dict() == {"average": 2.0}


def test_the_average_survives_a_restart() -> None:
    first, second = MovingAverageCentered(), MovingAverageCentered()
    first.compute(experience([2.0]))
    assert first.state_dict() == {}
    first.commit()
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert tokens(second, experience([3.0], lengths=[1])) == [[1]]


def test_the_greedy_reward_is_the_baseline() -> None:
    rows = experience([1.0, 0.0], lengths=[2, 1])
    rows.extras = {"greedy_reward": torch.tensor([0.25, 1.0])}
    assert tokens(GreedyCentered(), rows) == [[0.75, 0.75], [-1]]
    with pytest.raises(ValueError, match="GreedyBaselineSampler"):
        GreedyCentered().compute(experience([1.0]))


@pytest.mark.parametrize("part", [BatchCentered, MovingAverageCentered, GreedyCentered, DiscountedReturn])
def test_a_discount_above_1_is_refused(part: type[DiscountedReturn]) -> None:
    with pytest.raises(ValueError, match=rf"{part.__name__} .*gamma"):
        part(gamma=1.5)


def test_a_decay_of_1_never_moves_and_is_refused() -> None:
    with pytest.raises(ValueError, match="decay"):
        MovingAverageCentered(decay=1.0)


def test_a_row_without_response_tokens_keeps_its_score_in_the_mean_of_the_batch() -> None:
    found = BatchCentered().compute(experience([1.0, 0.0, 5.0], lengths=[2, 3, 0])).advantages
    assert found[:2, PROMPT].tolist() == [-1.0, -2.0]
