"""The picture of benchmarks/learning/chat_models.py: training reward and held-out accuracy, a column for each task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from benchmarks.learning.chat_algorithms import ALGORITHMS
from benchmarks.learning.chat_cells import ROLLOUTS, Cell
from benchmarks.learning.chat_plan import THRESHOLDS, Run
from benchmarks.learning.chat_tasks import TASKS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#000000", "#e69f00", "#56b4e9", "#009e73", "#d55e00", "#0072b2", "#cc79a7", "#999999", "#8c564b", "#7f3fbf", "#6b8e23")
"""Of the algorithms in their order."""
MARKS = "osD^v<>pPX*"
"""Likewise: lines differ without colours."""


def draw(cells: Mapping[Run, Cell], picture: Path) -> Figure:
    """Draw the means over the seeds that are there.

    Args:
        cells: the results.
        picture: file to write.
    """
    figure = Figure(figsize=(12, 6.5), layout="constrained")
    axes = figure.subplots(2, len(TASKS), sharey=True, squeeze=False)
    for column, task in enumerate(TASKS):
        rewards, accuracy = axes[0][column], axes[1][column]
        for name, colour, mark in zip(ALGORITHMS, COLOURS, MARKS, strict=True):
            found = [cell for run, cell in cells.items() if (run.task, run.algorithm) == (task, name)]
            if found:
                look = {
                    "color": colour,
                    "marker": mark,
                    "markersize": 4,
                    "linewidth": 1.2,
                    "label": name.replace("reinforce_plus_plus", "reinforce++"),
                }
                # a rollout of alike rewards alone has none for an algorithm that drops such groups
                met = [[(i, r["reward"]) for i, r in enumerate(cell["rollouts"], 1) if "reward" in r] for cell in found]
                _line(rewards, met, look)
                _line(accuracy, [cell["accuracy"] for cell in found], look)
        accuracy.axhline(THRESHOLDS[task].end_at_least, color="grey", linestyle=":", linewidth=1)
        rewards.set_title(f"{task}: training reward", fontsize=10)
        accuracy.set_title(f"{task}: held out, threshold dotted", fontsize=10)
        accuracy.set_xlabel("rollouts of 48 completions", fontsize=9)
        for part in (rewards, accuracy):
            part.set(xlim=(-0.3, ROLLOUTS + 0.3), ylim=(0, 1.02))
            part.grid(alpha=0.3)
            part.tick_params(labelsize=8)
    handles = {label: handle for part in axes.flat for handle, label in zip(*part.get_legend_handles_labels(), strict=True)}
    if handles:
        figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=6, fontsize=8)
    figure.savefig(picture, dpi=100)
    return figure


def _line(axes: Axes, curves: Sequence[Sequence[tuple[int, float]]], look: dict[str, object]) -> None:
    """The mean of several curves at the places that all of them have."""
    of = [{int(x): float(y) for x, y in curve} for curve in curves]
    places = sorted(set(of[0]).intersection(*of[1:]))
    axes.plot(places, [sum(curve[x] for curve in of) / len(of) for x in places], **look)  # type: ignore[arg-type]
