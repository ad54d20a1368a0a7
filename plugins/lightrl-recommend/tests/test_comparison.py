"""`lightrl algorithms --compare`: what sets algorithms apart follows from the parts of each."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from lightrl_recommend.comparison import QUESTIONS, facts_of

from lightrl import GroupRelative, GroupSampler
from lightrl.config import algorithm_named, registered

ALGORITHMS = [cls for _, cls in registered()]


def facts(name: str) -> Any:
    return facts_of(algorithm_named(name).cls)


@pytest.mark.parametrize("cls", ALGORITHMS, ids=lambda cls: cls.__name__)
def test_every_algorithm_answers_every_question(cls: type[Any]) -> None:
    answers = facts_of(cls)
    assert all(getattr(answers, name).strip() for name in QUESTIONS)
    assert answers.best_for != "not stated", f"{cls.__name__}.best_for says when to choose it"


def test_facts_follow_from_the_parts() -> None:
    grpo = facts("GRPO")
    assert grpo.models == "policy, reference"
    assert grpo.kl == "k3 to the reference, 0.04 in the loss"
    assert grpo.clip == "per token, SymmetricClip(epsilon=0.2)"
    assert grpo.without_signal == "gradient from KL alone"
    dr = facts("DrGRPO")
    assert (dr.models, dr.kl, dr.without_signal) == ("policy", "none", "no gradient")
    assert dr.advantage == "GroupCentered. Reward minus the mean of its group"


def test_facts_of_an_algorithm_that_is_not_ours(throwaway: None) -> None:
    wide = facts("Wide")
    assert wide.distribution == "unknown"
    assert wide.clip == "per token, DecoupledClip(low=0.5, high=0.6)"
    assert wide.best_for == "not stated"


def test_the_comparison_as_json_and_markdown(lightrl: Callable[..., Any]) -> None:
    rows = json.loads(lightrl("algorithms", "GRPO", "DrGRPO", "--compare", "--json").out)
    assert [row["algorithm"] for row in rows] == ["GRPO", "DrGRPO"]
    lines = lightrl("algorithms", "GRPO", "DrGRPO", "--compare", "--markdown").out.splitlines()
    assert [line.count("|") for line in lines] == [len(QUESTIONS) + 2] * 4
    assert lines[2].startswith("| `GRPO` | policy, reference |")


@pytest.mark.parametrize("width", [80, 160])
def test_the_table_has_a_row_for_each_algorithm_and_only_answers_that_differ(
    width: int, lightrl: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    out = lightrl("algorithms", "--compare").out
    assert max(map(len, out.splitlines())) <= width
    cells = [line.split("│")[1].strip() for line in out.splitlines() if line.startswith("│")]
    assert [cell for cell in cells if cell] == [cls.__name__ for cls in ALGORITHMS]


def test_what_is_the_same_for_all_is_said_once(lightrl: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    out = lightrl("algorithms", "GRPO", "DrGRPO", "--compare").out
    table, below = (" ".join(part.split()) for part in out.split("The same for all: "))
    assert "KL: none" in table
    assert "KL: k3 to the reference, 0.04 in the loss" in table
    assert "SymmetricClip(epsilon=0.2)" not in table
    assert "ratio and clipping: per token, SymmetricClip(epsilon=0.2)" in below


def test_an_algorithm_that_its_defaults_do_not_make_is_left_out_and_said(
    lightrl: Callable[..., Any], write: Callable[..., Any], throwaway: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GroupRelative, "_check", lambda self: GroupSampler(group_size=0))
    answer = lightrl("algorithms", "Wide", "--compare")
    assert answer.status == 0
    assert answer.err.startswith("Wide is left out, ")
    assert "group_size" in answer.err
