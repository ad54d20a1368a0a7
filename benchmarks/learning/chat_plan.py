"""What benchmarks/learning/chat_models.py runs, in which order, and from where to where each run is to come."""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.learning.chat_algorithms import ALGORITHMS

SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Threshold:
    """Written down before the first run of the page."""

    start_at_most: float
    """Held-out accuracy before training, or there is not enough to learn."""
    end_at_least: float
    """At the last evaluation."""


THRESHOLDS = {
    "sums": Threshold(0.3, 0.8),
    "products": Threshold(0.4, 0.6),
    "calculator": Threshold(0.4, 0.8),
    "sft_dpo": Threshold(0.3, 0.6),
    "reward_model": Threshold(0.6, 0.75),
}
"""By task."""
OFFLINE = ("sft_dpo", "reward_model")
"""Tasks that are one run each."""


@dataclass(frozen=True)
class Run:
    """A cell of the page."""

    task: str
    algorithm: str
    """Of an offline task its name."""
    seed: int


def algorithms_of(task: str) -> Sequence[str]:
    """What the task is trained by."""
    return (task,) if task in OFFLINE else tuple(ALGORITHMS)


def plan(
    tasks: Collection[str] = tuple(THRESHOLDS), algorithms: Collection[str] = tuple(ALGORITHMS), seeds: Sequence[int] = SEEDS
) -> list[Run]:
    """The runs in their order, so that something is whole early: all tasks with the first seed before the next seed."""
    every = [Run(task, algorithm, seed) for seed, task in itertools.product(seeds, THRESHOLDS) for algorithm in algorithms_of(task)]
    return [run for run in every if run.task in tasks and (run.task in OFFLINE or run.algorithm in algorithms)]


def results(file: Path) -> dict[Run, dict[str, Any]]:
    """Those that are there, a line of the file for each."""
    cells = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return {Run(cell["task"], cell["algorithm"], cell["seed"]): cell for cell in cells}
