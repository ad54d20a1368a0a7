"""Running mean and variance against numbers by hand and against all scores at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lightrl_reward_model import RewardModel, RunningWhitening
from lightrl_reward_model.whitening import Moments

from lightrl import Statistic

NUMBERS = st.floats(-1e3, 1e3)


def moments(scores: list[float]) -> Moments:
    values = torch.tensor(scores, dtype=torch.float64)
    return Moments(len(scores), float(values.mean()), float(values.var(correction=0)))


def seen(whitening: RunningWhitening, rollouts: list[list[float]]) -> Moments:
    so_far = Moments()
    for scores in rollouts:
        so_far = whitening.after(so_far, moments(scores))
    return so_far


def test_by_hand() -> None:
    whitening = RunningWhitening(mean=1.0, std=2.0)
    so_far, scores = Moments(), torch.tensor([1.0, 3.0, 5.0])
    assert whitening.whitened(scores, so_far).tolist() == [0.0, 1.0, 2.0]
    so_far = whitening.after(so_far, moments([1.0, 3.0]))
    assert whitening.whitened(scores, so_far).tolist() == [-1.0, 1.0, 3.0]
    so_far = whitening.after(so_far, moments([5.0, 7.0, 9.0, 11.0]))
    # 1 3 5 7 9 11: mean 6, variance 35 / 3
    assert (so_far.rows, so_far.mean, so_far.variance) == pytest.approx((6, 6, 35 / 3))
    assert whitening.whitened(torch.tensor([6.0 + math.sqrt(35 / 3)]), so_far).item() == pytest.approx(1.0)


def test_with_a_decay_by_hand() -> None:
    so_far = seen(RunningWhitening(decay=0.75), [[1.0, 3.0], [6.0, 6.0, 6.0]])
    # a quarter of the new: mean 2 + 4 / 4, variance 0.75 * 1 + 0.25 * 0 + 0.75 * 0.25 * 16
    assert (so_far.mean, so_far.variance) == pytest.approx((3.0, 3.75))


@given(st.lists(st.lists(NUMBERS, min_size=1, max_size=5), min_size=1, max_size=5))
def test_however_scores_are_cut_into_rollouts_they_weigh_the_same(rollouts: list[list[float]]) -> None:
    together, apart = moments([s for scores in rollouts for s in scores]), seen(RunningWhitening(), rollouts)
    assert (apart.rows, apart.mean, apart.variance) == pytest.approx((together.rows, together.mean, together.variance), rel=1e-9, abs=1e-6)


@given(st.lists(NUMBERS, min_size=2, max_size=6), st.floats(0.1, 10), NUMBERS)
def test_whitened_scores_forget_scale_and_offset(scores: list[float], scale: float, offset: float) -> None:
    other = [scale * s + offset for s in scores]
    one = RunningWhitening().whitened(torch.tensor(scores, dtype=torch.float64), moments(scores))
    if moments(scores).variance > 1e-2:
        assert torch.allclose(RunningWhitening().whitened(torch.tensor(other, dtype=torch.float64), moments(other)), one, atol=1e-4)


def test_equal_scores_are_centred_and_not_blown_up() -> None:
    so_far = seen(RunningWhitening(), [[0.1 + 0.2, 0.3, 0.3]])
    assert RunningWhitening().whitened(torch.tensor([0.3, 1.3], dtype=torch.float64), so_far).tolist() == pytest.approx([0.0, 1.0])


@pytest.mark.parametrize("arguments", [{"std": 0.0}, {"decay": 1.0}, {"decay": 0.0}, {"mean": math.inf}])
def test_arguments_outside_their_range_are_refused(arguments: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="RunningWhitening"):
        RunningWhitening(**arguments)


def reduced(*results: Any) -> dict[str, float]:
    """The statistics of several ranks, joined as the core joins them."""
    numbers = {}
    for name, first in results[0].statistics.items():
        values = torch.cat([getattr(r.statistics[name], "value", r.statistics[name]) for r in results]).double()
        summed = isinstance(first, Statistic) and first.reduce == "sum"
        numbers[name] = float(values.nansum() if summed else values.nanmean())
    return numbers


def test_a_rollout_is_measured_by_those_before_and_counted_with_the_rows_of_all_ranks(
    folder: Callable[..., Path], rollout: Callable[..., Any]
) -> None:
    path = str(folder())
    first, second = rollout(("a", "bc"), ("d?", "e")), rollout(("1+1=", "2"), ("b", "j" * 70), ("0", ""))
    plain = RewardModel(path)
    raw = torch.cat([plain.score(first).value, plain.score(second).value]).double()
    raw = raw[~raw.isnan()]
    ranks = [RewardModel(path, whiten=RunningWhitening()) for _ in range(2)]
    results = [ranks[0].score(first), ranks[1].score(second)]
    assert torch.equal(results[0].value, plain.score(first).value)
    for rank in ranks:
        rank.observe(reduced(*results))
    assert ranks[0].state_dict() == ranks[1].state_dict()
    assert ranks[0].state_dict()["whitening"] == pytest.approx([4, float(raw.mean()), float(raw.var(correction=0))])
    expected = (plain.score(first).value.double() - raw.mean()) / raw.std(correction=0)
    for _ in range(2):
        # asking twice, as an evaluation does, changes nothing
        assert ranks[0].score(first).value.tolist() == pytest.approx(expected.tolist(), abs=1e-5)
    assert ranks[0].score(first).statistics["whitening/mean"].tolist() == pytest.approx([float(raw.mean())] * 2)


def test_bounds_are_of_the_whitened_score(folder: Callable[..., Path], rollout: Callable[..., Any]) -> None:
    path, rows = str(folder()), rollout(("a", "bc"), ("d?", "e"), ("1+1=", "2"))
    reward = RewardModel(path, whiten=RunningWhitening(mean=-50.0), clip=(-1.0, 7.0))
    assert reward.score(rows).value.tolist() == [7.0] * 3
    assert reward.score(rows).statistics["raw"].tolist() == pytest.approx(RewardModel(path).score(rows).value.tolist())


def test_a_rollout_without_a_score_teaches_nothing(folder: Callable[..., Path], rollout: Callable[..., Any]) -> None:
    reward = RewardModel(str(folder()), whiten=RunningWhitening())
    reward.observe({"mean": 1.0})
    reward.observe(reduced(reward.score(rollout(("b", "j" * 70)))))
    assert reward.state_dict() == {}
