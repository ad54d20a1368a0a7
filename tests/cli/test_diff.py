"""`lightrl diff`: only what differs, down to the argument; of names, of files, and of both."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("throwaway")


def rows(out: str) -> list[list[str]]:
    """The cells of a printed table, its head included."""
    return [[cell.strip() for cell in line.strip("│┃").replace("┃", "│").split("│")] for line in out.splitlines() if line[0] in "│┃"]


def test_two_algorithms_differ_in_arguments_alone(lightrl: Callable[..., Any]) -> None:
    assert rows(lightrl("diff", "Narrow", "Wide").out) == [
        ["key", "Narrow", "Wide"],
        ["clip.low", "0.05", "0.5"],
        ["clip.high", "0.06", "0.6"],
        ["epochs", "1", "2"],
    ]


def test_another_part_brings_its_arguments_and_takes_the_old_ones(lightrl: Callable[..., Any]) -> None:
    found = rows(lightrl("diff", "GRPO", "Narrow").out)
    assert ["clip", "SymmetricClip", "DecoupledClip"] in found
    assert ["clip.epsilon", "0.2", "-"] in found
    assert ["clip.low", "-", "0.05"] in found
    assert ["kl", "KLPenalty", "null"] in found
    assert not [row for row in found if row[0].startswith(("sampler", "advantage", "aggregation"))]


def test_nothing_differs(lightrl: Callable[..., Any]) -> None:
    answer = lightrl("diff", "GRPO", "GRPO")
    assert (answer.status, answer.out) == (0, "GRPO and GRPO do not differ: every part and every argument is the same.\n")


def test_two_files_differ_in_any_key(lightrl: Callable[..., Any], write: Callable[..., Any], config: dict[str, Any]) -> None:
    other = copy.deepcopy(config)
    other["rollouts"] = 7
    other["model"]["algorithm"]["init_args"]["clip"]["init_args"]["epsilon"] = 0.3
    other["data"]["validation_size"] = 4
    other["model"]["rewards"]["length"] = {"class_path": "ExactMatch", "init_args": {"weight": 0.5}}
    write("other.yaml", other)
    found = rows(lightrl("diff", "run.yaml", "other.yaml").out)
    assert [row for row in found if not row[0].startswith("model.rewards")] == [
        ["key", "run.yaml", "other.yaml"],
        ["rollouts", "2", "7"],
        ["model.algorithm.clip.epsilon", "0.1", "0.3"],
        ["data.validation_size", "8", "4"],
    ]
    assert ["model.rewards.length.weight", "-", "0.5"] in found


def test_a_file_is_resolved_before_it_is_compared(lightrl: Callable[..., Any], write: Callable[..., Any], config: dict[str, Any]) -> None:
    config["model"]["algorithm"]["init_args"]["epochs"] = 1  # the default, spelt out
    write("same.yaml", config)
    assert "do not differ" in lightrl("diff", "run.yaml", "same.yaml").out


def test_a_name_is_compared_with_the_algorithm_of_a_file(lightrl: Callable[..., Any]) -> None:
    assert rows(lightrl("diff", "GRPO", "run.yaml").out) == [
        ["key", "GRPO", "GRPO (run.yaml)"],
        ["sampler.group_size", "8", "4"],
        ["clip.epsilon", "0.2", "0.1"],
    ]


def test_a_file_without_an_algorithm_is_refused(lightrl: Callable[..., Any], write: Callable[..., Any]) -> None:
    write("sft.yaml", {"model": {"class_path": "SupervisedFineTuning"}})
    answer = lightrl("diff", "GRPO", "sft.yaml")
    assert answer.status == 2
    assert answer.err.startswith("model.algorithm: sft.yaml names no algorithm to compare.")


def test_a_missing_file_is_answered_with_its_neighbours(lightrl: Callable[..., Any]) -> None:
    answer = lightrl("diff", "rum.yaml", "GRPO")
    assert answer.status == 2
    assert "Did you mean 'run.yaml'?" in answer.err
