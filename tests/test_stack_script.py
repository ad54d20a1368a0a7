"""The floors that `make stack` installs are those of the packages, and no cap is there without a reason."""

from __future__ import annotations

from typing import Any

import pytest
from packaging.requirements import Requirement

from benchmarks.evidence import stack

CAPPED = {
    "lightrl-core": "the API of plugins may change with the second number",
    "lightrl-code": "the same, for the package that is built on its tools",
    "lightrl-servers": "the same, for the two packages that are built on it",
    "jsonargparse": "5 takes away what Lightning calls",
}


def test_a_floor_is_the_highest_that_a_package_states() -> None:
    needed = ["torch>=2.6", "a[extra]<5,>=4.53", "torch>=2.10", "b>=1; python_version > '3'", "lightrl-core>=0.1,<0.2"]
    assert stack.floors(needed) == {"a": "4.53", "b": "1", "torch": "2.10"}
    with pytest.raises(ValueError, match="torch"):
        stack.floors(["torch"])


def test_every_dependency_has_a_floor_and_no_cap_without_a_reason() -> None:
    needed = stack.dependencies()
    assert {"transformers", "gymnasium", "pytest"} <= set(stack.floors(needed))
    capped = {one.name for one in map(Requirement, needed) if any(part.operator in ("<", "<=", "~=", "==") for part in one.specifier)}
    assert capped == set(CAPPED)


def test_rewards_are_compared_row_by_row() -> None:

    def column(*rewards: float) -> Any:
        return stack.Column({}, {}, list(rewards))

    assert stack.largest_difference([column(1.0, 2.0), column(1.0, 2.5), column(0.9, 2.0)]) == 0.5
    assert stack.largest_difference([column(1.0)]) == 0.0
    assert stack.largest_difference([column(1.0), column()]) == float("inf")
    assert stack.largest_difference([column()]) == float("inf")


def test_a_report_says_what_passed() -> None:
    report = """<testsuites><testsuite><properties><property name="version torch" value="2.6.0"/><property name="rewards" value="[0.5]"/>
    </properties><testcase name="test_contract[KL]"><failure/></testcase><testcase name="test_resumed"/></testsuite></testsuites>"""
    found = stack.column_of(report)
    assert (found.versions, found.rewards) == ({"torch": "2.6.0"}, [0.5])
    assert found.lines == {"contract: KL": "failed", "resumed": "passed"}


def test_all_columns_are_run_where_none_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert stack.parsed([]).columns == ["lowest", "pinned", "newest"]
    assert stack.parsed(["newest"]).columns == ["newest"]
    with pytest.raises(SystemExit):
        stack.parsed(["oldest"])
    assert "oldest" in capsys.readouterr().err
