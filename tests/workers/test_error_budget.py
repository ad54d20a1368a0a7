"""The failures that a run allows, and those that show that a part has never worked."""

from __future__ import annotations

import pytest

from lightrl.workers.error_budget import ErrorBudget


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
    budget = ErrorBudget(0.5, 8, "completions")
    budget.add(failures)
    assert budget.only_failure() == expected


def test_a_part_that_may_always_fail_has_no_only_failure() -> None:
    budget = ErrorBudget(1.0, 8, "completions")
    budget.add(["prompt 'a': no"])
    assert budget.only_failure() is None
