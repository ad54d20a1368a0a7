"""Statistics are reduced over values, not over means of parts."""

import math

import pytest
import torch

from lightrl.training.reports.statistics import Entry, StatisticsLedger
from lightrl.types import Statistic


def alone(value: object) -> list[object]:
    return [value]


def test_a_mean_over_two_calls_is_the_mean_of_all_values() -> None:
    ledger = StatisticsLedger()
    ledger.add("x", torch.tensor([1.0, 2.0, 3.0]))
    ledger.add("x", torch.tensor([10.0]))
    assert ledger.reduce(alone) == {"x": 4.0}
    assert ledger.reduce(alone) == {}


def test_nan_and_masked_values_are_left_out() -> None:
    ledger = StatisticsLedger()
    ledger.add_all({"row": torch.tensor([1.0, math.nan]), "token": torch.tensor([[1.0, 5.0], [math.nan, 7.0]])},
                   torch.tensor([[True, False], [True, True]]))  # fmt: skip
    assert ledger.reduce(alone) == {"row": 1.0, "token": 4.0}


def test_max_min_and_sum() -> None:
    ledger = StatisticsLedger()
    for values in ([1.0, -2.0], [3.0]):
        for kind in ("max", "min", "sum"):
            ledger.add_all({kind: Statistic(torch.tensor(values), kind)}, torch.ones(1, dtype=torch.bool))  # type: ignore[arg-type]
    assert ledger.reduce(alone) == {"max": 3.0, "min": -2.0, "sum": 2.0}


def test_one_name_has_one_reduction() -> None:
    ledger = StatisticsLedger()
    ledger.add("x", 1.0)
    with pytest.raises(ValueError, match=r"'x' .*mean .*max"):
        ledger.add("x", 1.0, reduce="max")


def test_ranks_are_added_up_value_by_value_and_may_have_names_of_their_own() -> None:
    ranks = [StatisticsLedger(), StatisticsLedger()]
    for ledger, values in zip(ranks, ([1.0, 2.0], [9.0]), strict=True):
        for kind in ("mean", "sum", "max", "min"):
            ledger.add(kind, torch.tensor(values), reduce=kind)
    ranks[0].add("mine", 1.0)
    ranks[1].add("theirs", 5.0)
    theirs: list[dict[str, Entry]] = []
    ranks[1].reduce(lambda mine: theirs.append(mine) or [mine])
    reduced = ranks[0].reduce(lambda mine: [mine, *theirs])
    assert reduced == {"mean": 4.0, "sum": 12.0, "max": 9.0, "min": 1.0, "mine": 1.0, "theirs": 5.0}


def test_a_part_does_not_report_under_a_name_of_the_core() -> None:
    class Mine:
        """A part."""

    ledger, step = StatisticsLedger(), StatisticsLedger()
    ledger.add("reward", 1.0)
    with pytest.raises(ValueError, match=r"Mine .*'reward', .*mine/reward"):
        ledger.add_all({"reward": torch.tensor([0.5])}, torch.ones(1, 1), Mine())
    step.add_all({"loss": torch.tensor([0.5])}, torch.ones(1, 1), Mine())
    ledger.add("loss", 1.0)
    with pytest.raises(ValueError, match=r"Mine .*'loss'"):
        ledger.merge(step)
    ledger.add_all({"mine/loss": torch.tensor([0.5])}, torch.ones(1, 1), Mine())
    assert ledger.reduce(alone) == {"loss": 1.0, "mine/loss": 0.5, "reward": 1.0}


def test_numbers_of_a_step_may_be_asked_for_before_and_after_they_are_merged() -> None:
    ledger, step = StatisticsLedger(), StatisticsLedger()
    ledger.add("x", torch.tensor([1.0, 5.0]))
    step.add("x", torch.tensor([3.0]))
    step.add("high", torch.tensor([[2.0, math.nan], [7.0, 9.0]]), torch.tensor([[True, True], [True, False]]), "max")
    assert step.local("x") == (3.0, 1.0)
    step.add("x", 2.0)
    ledger.merge(step)
    assert step.local("x") == (5.0, 2.0)
    assert step.local("high") == (7.0, 2.0)
    assert ledger.local("x") == (11.0, 4.0)
    assert ledger.reduce(alone) == {"high": 7.0, "x": 2.75}


def test_values_that_do_not_count_leave_no_number() -> None:
    ledger = StatisticsLedger()
    ledger.add("nan", math.nan)
    ledger.add("empty", torch.empty(0), reduce="max")
    ledger.add("masked", torch.ones(2, 2), torch.zeros(2, 2, dtype=torch.bool), "min")
    assert ledger.local("masked") == (0.0, 0.0)
    assert ledger.reduce(alone) == {}
