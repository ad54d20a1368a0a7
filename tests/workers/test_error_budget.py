"""The failures that a run allows, and those that show that a part has never worked."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from lightrl.workers.error_budget import ErrorBudget


@dataclass
class Limits:
    max_error_rate: float = 0.5
    error_window: int = 8


@pytest.mark.parametrize(
    ("failures", "expected"),
    [
        (["prompt 'a': KeyError: 'x'", "prompt 'b: c': KeyError: 'x'", "prompt \"d'e\": KeyError: 'x'"], "KeyError: 'x'"),
        (["prompt 'a': KeyError: 'x'", "prompt 'a': KeyError: 'y'"], None),
        (["prompt 'a': KeyError: 'x'", None], None),
        ([None], None),
        ([], None),
    ],
)
def test_samples_that_all_failed_alike(failures: list[str | None], expected: str | None) -> None:
    budget = ErrorBudget(Limits(), "completions")
    budget.add(failures)
    assert budget.only_failure() == expected


def test_a_part_that_may_always_fail_has_no_only_failure() -> None:
    budget = ErrorBudget(Limits(max_error_rate=1.0), "completions")
    budget.add(["prompt 'a': no"])
    assert budget.only_failure() is None
