"""Smoothed advantages against numbers by hand, a direct computation, and everything that must not matter."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lightrl_dcpo import SmoothedAdvantage
from lightrl_dcpo.smoothed import History
from lightrl_workshop.experience import PROMPT, experience

from lightrl import Experience, GroupNormalized

ONE, ALL, THREE = [1.0, 0, 0, 0], [1.0] * 4, [1.0, 1, 1, 0]


def of_rows(part: SmoothedAdvantage, rows: Experience, commit: bool = True) -> list[float]:
    found = part.compute(rows).advantages[:, PROMPT].tolist()
    if commit:
        part.commit()
    return found


def of_prompt(part: SmoothedAdvantage) -> list[float]:
    """Uses, mean and variance of the one prompt it has seen."""
    (numbers,) = part.state_dict()["history"].values()
    return numbers


def uses(*rewards: list[float]) -> list[list[float]]:
    part = SmoothedAdvantage()
    return [of_rows(part, experience(r)) for r in rewards]


def test_golden_numbers() -> None:
    first, second, third = uses(ONE, ALL, ALL)
    assert first == pytest.approx([1.732051, -0.57735, -0.57735, -0.57735], abs=1e-5)
    assert second == pytest.approx([0.387298] * 4, abs=1e-5)
    assert third == pytest.approx([0.19245] * 4, abs=1e-5)
    assert uses(ONE, THREE)[1] == pytest.approx([0.788675, 0.788675, 0.788675, -1.366025], abs=1e-5)
    assert uses(ONE, ALL, THREE)[2] == pytest.approx([0.620602, 0.620602, 0.620602, -1.520159], abs=1e-5)


def test_the_recursion_is_the_populations_not_the_samples() -> None:
    """Fed with the sample's deviation, as one implementation does, the same recursion gives .515388."""
    after = History().with_use(0.25, 0.1875).with_use(1.0, 0.0)
    assert after == History(2, 0.625, 0.234375)
    assert after.variance**0.5 != pytest.approx(0.515388, abs=1e-3)


def directly(history: list[list[float]], new: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """Both smoothings on all rewards at once, by another road; the advantage is the one nearer to zero."""
    i, now, everything = len(history) + 1, np.array(new), np.concatenate([*history, new])

    def z(of: np.ndarray) -> np.ndarray:
        return (now - of.mean()) / of.std() if of.std() > 1e-9 else np.zeros_like(now)

    return ((i - 1) * z(now) + z(everything)) / i, (z(now) + (i - 1) * z(everything)) / i


@given(st.lists(st.lists(st.integers(-1, 1).map(float), min_size=5, max_size=5), min_size=1, max_size=6))
def test_against_a_direct_computation(history: list[list[float]]) -> None:
    found = np.array(uses(*history)[-1])
    by_new, by_total = directly(history[:-1], history[-1])
    assert np.abs(found) == pytest.approx(np.minimum(np.abs(by_new), np.abs(by_total)), abs=1e-5)
    # where both are equally near, on either side of zero, rounding decides
    assert np.minimum(np.abs(found - by_new), np.abs(found - by_total)) == pytest.approx(np.zeros(len(found)), abs=1e-5)


def test_the_first_use_is_grpos_and_a_prompt_that_never_varied_stays_at_zero() -> None:
    rows = experience([2.0, 10.0, 3.0])
    assert torch.equal(SmoothedAdvantage().compute(rows).advantages, GroupNormalized(ddof=0, eps=0).compute(rows).advantages)
    assert uses(ALL, ALL, ALL) == [[0.0] * 4] * 3
    assert uses([0.3] * 4, [0.1 + 0.2] * 4) == [[0.0] * 4] * 2


def test_nothing_is_remembered_before_the_step_and_everything_after() -> None:
    part = SmoothedAdvantage()
    once = of_rows(part, experience(ONE), commit=False)
    assert of_rows(part, experience(ONE), commit=False) == once
    assert part.state_dict() == {}
    part.commit()
    part.commit()
    assert of_prompt(part) == pytest.approx([1, 0.25, 0.1875])


def test_a_rollout_that_is_tried_again_replaces_the_first_attempt() -> None:
    part = SmoothedAdvantage()
    part.compute(experience(ALL))
    part.compute(experience(ONE))
    part.commit()
    assert of_prompt(part) == pytest.approx([1, 0.25, 0.1875])


def test_history_travels_as_plain_values() -> None:
    part, again = SmoothedAdvantage(), SmoothedAdvantage()
    of_rows(part, experience(ONE))
    file = io.BytesIO()
    torch.save(part.state_dict(), file)
    file.seek(0)
    again.load_state_dict(torch.load(file, weights_only=True))
    assert of_rows(again, experience(THREE)) == of_rows(part, experience(THREE))
    assert again.state_dict() == part.state_dict()


def test_one_prompt_drawn_twice_in_a_batch_is_one_use() -> None:
    part = SmoothedAdvantage()
    rows = experience([1.0, 0, 0, 0, 1.0, 1, 1, 1], group=[0, 0, 0, 0, 1, 1, 1, 1])
    rows.prompts = [rows.prompts[0]] * 8
    together = of_rows(part, rows)
    assert of_prompt(part) == pytest.approx([1, 0.625, 0.234375])
    assert together == of_rows(SmoothedAdvantage(), experience([1.0, 0, 0, 0, 1, 1, 1, 1]))


def test_only_rows_that_were_scored_and_prompts_that_were_trained_leave_a_trace() -> None:
    part = SmoothedAdvantage()
    failed = experience([*ONE, float("nan")], scorable=[True] * 4 + [False])
    assert of_rows(part, failed)[:4] == of_rows(SmoothedAdvantage(), experience(ONE))
    assert of_prompt(part) == pytest.approx([1, 0.25, 0.1875])
    masked = experience(THREE)
    masked.token_weight[:] = 0
    of_rows(part, masked)
    assert of_prompt(part) == pytest.approx([1, 0.25, 0.1875])
    # one row that carries a loss is enough, and then every scored reward counts
    masked.token_weight[2] = 1
    of_rows(part, masked)
    assert of_prompt(part)[:2] == pytest.approx([2, 0.5])


def test_prompts_keep_their_own_histories() -> None:
    part = SmoothedAdvantage()
    of_rows(part, experience([*ONE, *ALL], group=[0] * 4 + [1] * 4))
    found = of_rows(part, experience([*ALL, *ALL], group=[1] * 4 + [0] * 4))
    assert found[:4] == [0.0] * 4
    assert found[4:] == pytest.approx([0.387298] * 4, abs=1e-5)


def test_statistics_say_how_much_is_used_and_how_often_this_use_decides() -> None:
    part = SmoothedAdvantage()
    rows = experience([*ONE, *ALL], group=[0] * 4 + [1] * 4)
    first = part.compute(rows).statistics
    part.commit()
    rows = experience([*THREE, *ALL, *ONE], group=[0] * 4 + [1] * 4 + [2] * 4)
    second = part.compute(rows).statistics
    part.commit()
    third = part.compute(rows).statistics

    def mean(value: torch.Tensor) -> float:
        return float(value.nanmean())

    assert mean(first["response_utilization_ratio"]) == 0.5
    assert mean(first["smoothing/seen_before"]) == 0.0
    assert first["smoothing/picked_new"].isnan().all()
    assert mean(second["response_utilization_ratio"]) == pytest.approx(8 / 12)
    assert mean(second["smoothing/seen_before"]) == pytest.approx(2 / 3)
    assert second["smoothing/seen_before"].isfinite().sum() == 3
    assert second["smoothing/picked_new"].isnan().all()
    assert third["smoothing/picked_new"].isfinite().sum() == 8
    assert mean(third["smoothing/picked_new"]) == pytest.approx(3 / 8)
