"""Advantages of two well-known example groups, by hand; the inputs stand beside the numbers."""

import pytest
import torch
from lightrl_workshop.experience import experience

from lightrl.ops.moments import group_statistics, whiten
from lightrl.parts.advantage import Advantage, GroupCentered, GroupNormalized, LeaveOneOut

CAPITAL, DATABASE = [2.0, 10.0, 3.0], [3.8, 5.2, 6.1]


def per_row(part: Advantage, rewards: list[float], **more) -> list[float]:
    rows = experience(rewards, **more)
    advantages = part.compute(rows).advantages
    return [advantages[i, rows.response_mask[i]][0].item() for i in range(len(rewards))]


@pytest.mark.parametrize(
    ("rewards", "part", "expected"),
    [
        (CAPITAL, GroupNormalized(ddof=0, eps=0), [-0.842927, 1.404879, -0.561951]),
        (CAPITAL, GroupNormalized(ddof=1, eps=0), [-0.688247, 1.147079, -0.458831]),
        (CAPITAL, GroupNormalized(ddof=1, eps=1e-4), [-0.688231, 1.147052, -0.458821]),
        (CAPITAL, GroupNormalized(ddof=1, eps=1e-6), [-0.688247, 1.147078, -0.458831]),
        (CAPITAL, GroupCentered(), [-3, 5, -2]),
        (CAPITAL, LeaveOneOut(), [-4.5, 7.5, -3]),
        (DATABASE, GroupNormalized(ddof=0, eps=0), [-1.303269, 0.176117, 1.127152]),
        (DATABASE, GroupNormalized(ddof=1, eps=0), [-1.064115, 0.143799, 0.920316]),
        (DATABASE, GroupCentered(), [-1.233333, 0.166667, 1.066667]),
        (DATABASE, LeaveOneOut(), [-1.85, 0.25, 1.6]),
        ([1.0, 0, 0, 0, 0, 0, 0, 0], GroupNormalized(eps=0), [2.474874] + [-0.353553] * 7),
        ([10.0] * 4, GroupNormalized(), [0, 0, 0, 0]),
    ],
    ids=str,
)
def test_one_group(rewards: list[float], part: Advantage, expected: list[float]) -> None:
    assert per_row(part, rewards) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("rewards", "ddof", "mean", "std"),
    [(CAPITAL, 0, 5.0, 3.559026), (CAPITAL, 1, 5.0, 4.358899), (DATABASE, 0, 5.033333, 0.946338), (DATABASE, 1, 5.033333, 1.159023)],
)
def test_mean_and_deviation(rewards: list[float], ddof: int, mean: float, std: float) -> None:
    rows = experience(rewards)
    found = group_statistics(rows.rewards, rows.group, rows.scorable, ddof)
    assert found.mean[0].item() == pytest.approx(mean, abs=1e-5)
    assert found.std[0].item() == pytest.approx(std, abs=1e-5)


def test_the_deviation_is_not_rounded_to_3_5() -> None:
    rounded = [-0.857143, 1.428571, -0.571429]
    for ddof in (0, 1):
        assert per_row(GroupNormalized(ddof=ddof, eps=0), CAPITAL) != pytest.approx(rounded, abs=1e-2)


@pytest.mark.parametrize(("size", "shrink"), [(3, 0.816497), (8, 0.935414), (16, 0.968246), (64, 0.992157)])
def test_the_sample_deviation_shrinks_by_a_known_factor(size: int, shrink: float) -> None:
    rewards = [float(i % 3) for i in range(size)]
    sample, population = (per_row(GroupNormalized(ddof=ddof, eps=0), rewards) for ddof in (1, 0))
    assert sample == pytest.approx([shrink * a for a in population], abs=1e-5)


@pytest.mark.parametrize("eps", [0, 1e-9, 1e-8, 1e-6, 1e-4])
@pytest.mark.parametrize("ddof", [0, 1])
def test_ten_equal_float32_rewards_are_exactly_zero(eps: float, ddof: int) -> None:
    """Summed one after another in float32 and divided by std + eps, they come out as -0.84 to -0.00007."""
    assert per_row(GroupNormalized(ddof=ddof, eps=eps), [0.1] * 10) == [0.0] * 10
    assert per_row(GroupCentered(), [0.1] * 10) == per_row(LeaveOneOut(), [0.1] * 10) == [0.0] * 10


TWO_GROUPS = {"rewards": [1.0, 0.0, 1.0, 1.0], "group": [0, 0, 1, 1]}


def test_group_mean_and_batch_deviation_of_raw_rewards() -> None:
    assert per_row(GroupNormalized(std="batch", eps=0), **TWO_GROUPS) == pytest.approx([1, -1, 0, 0], abs=1e-5)


def test_global_normalisation_and_that_of_centred_rewards() -> None:
    """REINFORCE++ over the batch, and its baseline form; rank by rank the first would be .71, -.71, 0, 0."""
    raw = torch.tensor(TWO_GROUPS["rewards"])
    everywhere = torch.ones(4, dtype=torch.bool)
    assert whiten(raw, everywhere, eps=0).tolist() == pytest.approx([0.5, -1.5, 0.5, 0.5], abs=1e-5)
    centred = torch.tensor(per_row(GroupCentered(), **TWO_GROUPS))
    assert whiten(centred, everywhere, eps=0).tolist() == pytest.approx([1.224745, -1.224745, 0, 0], abs=1e-5)
