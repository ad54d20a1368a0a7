"""Curves and distributions of a report show what was logged."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lightrl_runs.report.drawing import bars
from lightrl_runs.report.line import MOST_POINTS, ends, merged
from lightrl_runs.report.logs import Histogram
from lightrl_runs.report.texts import rows

SERIES = st.dictionaries(st.integers(0, 1000), st.floats(-100, 100), max_size=40)


def test_the_mean_and_the_band_are_those_of_the_runs() -> None:
    curve = merged([{1: 0.0, 2: 1.0}, {1: 1.0, 2: 3.0}, {1: 2.0, 2: 2.0, 3: 9.0}])
    assert (curve.x, curve.mean, curve.low, curve.high) == ([1.0, 2.0], [1.0, 2.0], [0.0, 1.0], [2.0, 3.0])


def test_a_peak_stays_in_the_band_of_a_long_run() -> None:
    curve = merged([{x: 100.0 if x == 777 else 0.0 for x in range(10 * MOST_POINTS)}])
    assert len(curve.x) == MOST_POINTS
    assert max(curve.high) == 100.0
    assert max(curve.mean) == 10.0


@given(st.lists(SERIES, min_size=1, max_size=4))
def test_the_mean_is_within_the_band_and_only_shared_rollouts_count(series: list[dict[int, float]]) -> None:
    curve = merged(series)
    assert all(low - 1e-9 <= mean <= high + 1e-9 for low, mean, high in zip(curve.low, curve.mean, curve.high, strict=True))
    assert curve.x == sorted(set.intersection(*map(set, series)))


def test_values_that_are_not_finite_are_left_out_and_told_of() -> None:
    assert merged([{1: math.nan, 2: 1.0}]).x == [2.0]
    assert ends([{1: 0.5, 2: math.inf}, {1: 1.0}]) == "0.75 (0.5 to 1)"
    assert ends([{1: math.nan}]) == "not finite"
    assert ends([]) == ""


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 10), st.integers(0, 50)), min_size=1, max_size=8))
def test_a_distribution_loses_no_value(entries: list[tuple[float, float, int]]) -> None:
    limits = tuple((min(a, b), max(a, b)) for a, b, _ in entries)
    found = bars(Histogram(limits, tuple(float(count) for *_, count in entries)), np.linspace(0, 10, 6))
    assert found.sum() == pytest.approx(sum(count for *_, count in entries))


def test_a_bar_is_shared_out_by_width() -> None:
    assert bars(Histogram(((0.0, 4.0), (4.0, 4.0)), (8.0, 1.0)), np.array([0.0, 1.0, 4.0, 5.0])).tolist() == [2.0, 6.0, 1.0]


def test_cells_of_a_table_are_read_without_its_marks() -> None:
    table = "prompt | completion | a\n--- | --- | ---\n`1\\|2` | `<b>*x*</b>` | 0 → +0\nx | `y` |"
    assert rows(table) == [{"prompt": "1|2", "completion": "<b>*x*</b>", "a": "0 → +0"}, {"prompt": "x", "completion": "y", "a": ""}]
    assert rows("no table") == []
