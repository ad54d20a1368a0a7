"""Runs that differ in their seeds alone are one line of a chart: their mean, and the band from the lowest to the highest."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lightrl_runs.report.logs import Series
from lightrl_runs.report.run_folder import RunFolder, is_seed, of_run

ABSENT = "-"
"""Shown where a config has no such key."""
COLOURS = ("#1f6fb4", "#d95f0e", "#238b45", "#8856a7", "#c51b8a", "#5f5f5f", "#a6761d", "#2b8c8c")
"""One for each line, in their order; darker than the paper so that a print without colour shows them."""
MOST_POINTS = 300
"""Points of a curve; of more, neighbours are put together."""


@dataclass
class Line:
    """Runs with the same settings but for their seeds."""

    letter: str
    runs: list[RunFolder]
    colour: str = COLOURS[0]

    @property
    def settings(self) -> dict[str, str]:
        """Settings that its runs share."""
        return shared_settings(self.runs[0])

    def series(self, name: str) -> list[Series[float]]:
        """A number of each of its runs that has logged it."""
        return [run.log.numbers[name] for run in self.runs if run.log.numbers.get(name)]


def lines_of(runs: list[RunFolder]) -> list[Line]:
    """The lines of the charts, in the order in which their first runs were given; a run without a config is a line of its own."""
    together: dict[object, list[RunFolder]] = {}
    for run in runs:
        key = tuple(sorted(shared_settings(run).items())) if run.settings else run.path
        together.setdefault(key, []).append(run)
    return [Line(_letter(i), members, COLOURS[i % len(COLOURS)]) for i, members in enumerate(together.values())]


def shared_settings(run: RunFolder) -> dict[str, str]:
    """The settings that decide what line a run belongs to."""
    return {key: value for key, value in of_run(run.settings).items() if not is_seed(key)}


def differences(lines: list[Line]) -> dict[str, list[str]]:
    """The settings that differ between lines: the value of each line by the key, in the order of the configs."""
    keys = dict.fromkeys(key for line in lines for key in line.settings)
    rows = {key: [line.settings.get(key, ABSENT) for line in lines] for key in keys}
    return {key: values for key, values in rows.items() if len(set(values)) > 1}


def _letter(index: int) -> str:
    more, index = divmod(index, 26)
    return (_letter(more - 1) if more else "") + chr(ord("A") + index)


@dataclass(frozen=True)
class Curve:
    """A curve with a band."""

    x: list[float]
    """Rollouts or steps."""
    mean: list[float]
    """Over runs, and over the rollouts that were put together in a point."""
    low: list[float]
    high: list[float]


def merged(series: Sequence[Series[float]]) -> Curve:
    """The mean and the band of several runs, at the rollouts that all of them have; of a killed run the others are shown alone."""
    finite = [{x: value for x, value in one.items() if math.isfinite(value)} for one in series]
    shared = sorted(set[int].intersection(*map(set, finite))) if finite else []
    together = -(-len(shared) // MOST_POINTS) or 1
    points = [shared[i : i + together] for i in range(0, len(shared), together)]
    values = [[one[x] for one in finite for x in point] for point in points]
    return Curve(
        [sum(point) / len(point) for point in points],
        [math.fsum(point) / len(point) for point in values],
        [min(point) for point in values],
        [max(point) for point in values],
    )


def ends(series: Sequence[Series[float]]) -> str:
    """The mean of the last finite values of several runs, with the range between them: `0.91 (0.88 to 0.94)`."""
    lasts = [one[max(finite)] for one in series if (finite := [x for x, value in one.items() if math.isfinite(value)])]
    if not lasts:
        return "not finite" if any(series) else ""
    mean = f"{math.fsum(lasts) / len(lasts):.4g}"
    return mean if min(lasts) == max(lasts) else f"{mean} ({min(lasts):.4g} to {max(lasts):.4g})"
