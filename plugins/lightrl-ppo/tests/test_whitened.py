"""REINFORCE++'s advantage on two prompts with two completions: rewards (1, 0) and (1, 1)."""

import pytest
import torch
from lightrl_ppo import WhitenedReturn
from lightrl_workshop.experience import PROMPT, experience

from lightrl import KLPenalty

REWARDS, GROUPS = [1.0, 0.0, 1.0, 1.0], [0, 0, 1, 1]


def rows_of(part: WhitenedReturn, rewards=REWARDS, **more) -> list[float]:
    more = {"group": GROUPS[: len(rewards)], "lengths": [1] * len(rewards), **more}
    batch = experience(rewards, **more)
    return part.compute(batch).advantages.sum(1).tolist()


@pytest.mark.parametrize("over", ["rows", "tokens"])
def test_over_the_whole_batch(over: str) -> None:
    assert rows_of(WhitenedReturn(over=over)) == pytest.approx([0.5, -1.5, 0.5, 0.5], abs=1e-5)


@pytest.mark.parametrize("over", ["rows", "tokens"])
def test_with_the_group_as_baseline(over: str) -> None:
    found = rows_of(WhitenedReturn(over=over, baseline="group"))
    assert found == pytest.approx([1.224745, -1.224745, 0, 0], abs=1e-5)
    assert found[2:] == [0, 0]


def test_trap_each_rank_or_micro_batch_by_itself_is_something_else() -> None:
    first, second = rows_of(WhitenedReturn(), [1.0, 0.0]), rows_of(WhitenedReturn(), [1.0, 1.0])
    assert first + second == pytest.approx([0.707107, -0.707107, 0, 0], abs=1e-5)
    assert first + second != pytest.approx(rows_of(WhitenedReturn()), abs=0.1)


def test_trap_the_deviation_of_raw_rewards_is_something_else() -> None:
    """Lite PPO divides by the deviation of the raw rewards: 1, -1."""
    assert rows_of(WhitenedReturn(baseline="group"))[:2] != pytest.approx([1.0, -1.0], abs=0.1)


def test_long_rows_count_more_over_tokens_only() -> None:
    rewards, lengths = [1.0, 0.0], [3, 1]
    batch = experience(rewards, lengths=lengths)
    by_row, by_token = (WhitenedReturn(over=over).compute(batch).advantages[:, PROMPT].tolist() for over in ("rows", "tokens"))
    assert by_row == pytest.approx([0.707107, -0.707107], abs=1e-5)
    assert by_token == pytest.approx([0.5, -1.5], abs=1e-5)


def test_the_kl_in_the_reward_makes_returns_differ_between_tokens() -> None:
    """p = (.5, .4, .8), reference .5, beta .1, score 1: returns .975314, .975314, .953, against a row of 0."""
    old, reference = torch.tensor([[0.5, 0.4, 0.8]]).log(), torch.full((1, 3), 0.5).log()
    penalty = 0.1 * KLPenalty("k1", reward_coefficient=0.1).penalty(old, reference, torch.zeros(1, 3))
    wide = torch.zeros(2, PROMPT + 3)
    wide[0, PROMPT:] = torch.tensor([0.0, 0.0, 1.0]) - penalty[0]
    out = WhitenedReturn(eps=0).compute(experience([0.0, 0.0], token_rewards=wide)).advantages[:, PROMPT:]
    mean, std = 0.975314 / 2, 0.975314 / 2**0.5
    assert out[0].tolist() == pytest.approx([(g - mean) / std for g in (0.975314, 0.975314, 0.953)], abs=1e-5)
    assert out[1].tolist() == pytest.approx([-mean / std] * 3, abs=1e-5)


def test_rows_without_a_score_are_not_part_of_it() -> None:
    found = rows_of(WhitenedReturn(), [1.0, 0.0, 1.0, 1.0, 77.0], group=[0, 0, 1, 1, 2], scorable=[True] * 4 + [False])
    assert found == pytest.approx([0.5, -1.5, 0.5, 0.5, 0], abs=1e-5)


@pytest.mark.parametrize("rewards", [[0.1] * 10, [3.0]])
@pytest.mark.parametrize("part", [WhitenedReturn(), WhitenedReturn("tokens"), WhitenedReturn(baseline="group")], ids=repr)
def test_equal_rewards_teach_nothing(part: WhitenedReturn, rewards: list[float]) -> None:
    assert (part.compute(experience(rewards)).advantages == 0).all()


@pytest.mark.parametrize("arguments", [{"over": "groups"}, {"baseline": "batch"}, {"eps": -1}])
def test_impossible_settings_are_refused(arguments: dict) -> None:
    with pytest.raises(ValueError, match="WhitenedReturn"):
        WhitenedReturn(**arguments)


def test_a_row_without_response_tokens_keeps_its_score_in_group_and_batch() -> None:
    for part in (WhitenedReturn(), WhitenedReturn(baseline="group")):
        empty, short = (part.compute(experience([1.0, 0.0, 4.0], lengths=[2, 3, last])).advantages[:2, PROMPT] for last in (0, 1))
        assert empty.tolist() == pytest.approx(short.tolist())
