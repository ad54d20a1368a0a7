"""Numbers of a rollout that compare rows: within groups, or over the batch where every prompt has one completion."""

from __future__ import annotations

import math

import pytest
import torch
from lightrl_workshop.experience import experience

from lightrl import Prompt, RowReward
from lightrl.rewards.reward_set import RewardSet
from lightrl.training.online.rollout_report import length_reward_correlation, report_experience
from lightrl.training.reports.statistics import StatisticsLedger


class Score(RowReward):
    """Is never asked: the rows are scored already."""

    runs = "inline"

    def score(self, prompt: Prompt, completion: str) -> float:
        raise AssertionError


def reported(rewards: list[float], group: list[int], kept: dict[str, list[torch.Tensor]] | None = None) -> dict[str, float]:
    """The statistics of a rollout with these rewards."""
    ledger = StatisticsLedger(kept)
    ledger.add_report(report_experience(experience(rewards, group=group), RewardSet({"score": Score()}), None, None))
    return ledger.reduce(lambda mine: [mine])


def test_rows_are_compared_within_groups() -> None:
    found = reported([1.0, 1.0, 0.0, 1.0], [0, 0, 1, 1])
    assert found["frac_reward_zero_std"] == 0.5
    assert found["reward_std"] == pytest.approx(math.sqrt(0.5) / 2)


@pytest.mark.parametrize(("rewards", "std", "share"), [([1.0, 1.0, 0.0, 0.0], math.sqrt(1 / 3), 0.0), ([1.0, 1.0, 1.0, 1.0], 0.0, 1.0)])
def test_where_every_prompt_has_one_completion_the_batch_is_compared(rewards: list[float], std: float, share: float) -> None:
    found = reported(rewards, [0, 1, 2, 3])
    assert found["frac_reward_zero_std"] == share
    assert found["reward_std"] == pytest.approx(std)


@pytest.mark.parametrize(
    ("rewards", "lengths", "group", "correlation"),
    [
        ([0.0, 1.0, 2.0], [1, 2, 3], [0, 0, 0], 1.0),
        ([2.0, 1.0, 0.0], [1, 2, 3], [0, 0, 0], -1.0),
        # what differs between groups does not count: longer is better inside each
        ([0.0, 1.0, 10.0, 11.0], [5, 6, 1, 2], [0, 0, 1, 1], 1.0),
        # centred: rewards (-1, 0, 1), lengths (1, -2, 1)
        ([0.0, 1.0, 2.0], [4, 1, 4], [0, 0, 0], 0.0),
        # centred: rewards (-1, 0, 1), lengths (-1, -1, 2); 3 / sqrt(2 * 6)
        ([0.0, 1.0, 2.0], [1, 1, 4], [0, 0, 0], 3 / math.sqrt(12)),
        ([0.0, 1.0, 2.0], [1, 2, 3], [0, 1, 2], 1.0),
    ],
)
def test_length_and_reward_by_hand(rewards: list[float], lengths: list[int], group: list[int], correlation: float) -> None:
    found = float(length_reward_correlation(experience(rewards, lengths=lengths, group=group)))
    assert found == pytest.approx(correlation, abs=1e-12)


@pytest.mark.parametrize(("rewards", "lengths"), [([0.1, 0.1, 0.1], [1, 2, 3]), ([0.0, 1.0, 2.0], [3, 3, 3])])
def test_a_constant_has_no_correlation(rewards: list[float], lengths: list[int]) -> None:
    assert math.isnan(float(length_reward_correlation(experience(rewards, lengths=lengths))))


def test_single_values_are_kept_where_that_is_asked_for() -> None:
    kept: dict[str, list[torch.Tensor]] = {"reward": []}
    found = reported([1.0, 0.0, 3.0, 4.0], [0, 0, 1, 1], kept)
    assert torch.cat(kept["reward"]).tolist() == [1, 0, 3, 4]
    assert found["reward"] == 2
    assert set(kept) == {"reward"}
