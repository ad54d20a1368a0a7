"""Charts as SVG pictures that need nothing beside them; matplotlib draws them."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lightrl_runs.report.line import Line, merged
from lightrl_runs.report.logs import Histogram, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BARS = 24
"""Steps between the lowest and the highest value of a distribution."""
STYLE = Path(__file__).parent / "page.mplstyle"
"""Of every chart: letters stay letters, and the same numbers give the same file."""


def chart(lines: Sequence[Line], name: str, unit: str, wide: bool = False) -> str:
    """A number of every line over the run: a thin line for each run, a thick one for their mean, a band from the lowest to the highest."""
    with _axes((6.6, 2.9) if wide else (3.2, 2.0)) as (axes, saved):
        for line in lines:
            series = line.series(name)
            for one in series if len(series) > 1 else []:
                single = merged([one])
                axes.plot(single.x, single.mean, color=line.colour, linewidth=0.5, alpha=0.45)
            mean = merged(series)
            axes.plot(mean.x, mean.mean, color=line.colour, linewidth=1.4, marker="o" if len(mean.x) <= 12 else None, markersize=2.5)
            axes.fill_between(mean.x, mean.low, mean.high, color=line.colour, alpha=0.18, linewidth=0)
        axes.set_xlabel(f"{unit}s")
        axes.margins(x=0.01)
    return saved[0]


def heat_map(records: Sequence[Series[Histogram]], unit: str, colour: str) -> str:
    """A distribution over the run: the darker, the more of the values that were logged together lie there."""
    from matplotlib.colors import LinearSegmentedColormap

    steps = sorted({x for series in records for x in series})
    every = [histogram for series in records for histogram in series.values()]
    low = min(lower for histogram in every for lower, _ in histogram.limits)
    high = max(upper for histogram in every for _, upper in histogram.limits)
    if low == high:
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, BARS + 1)
    shares = np.stack([sum(bars(series[x], edges) for series in records if x in series) for x in steps], axis=1)
    shares = shares / np.maximum(shares.sum(axis=0, keepdims=True), 1e-12)
    with _axes((3.2, 2.0)) as (axes, saved):
        axes.grid(visible=False)
        shades = LinearSegmentedColormap.from_list("paper", ["#ffffff", colour])
        place = (0.5, len(steps) + 0.5, low, high)
        axes.imshow(shares, origin="lower", aspect="auto", extent=place, cmap=shades, vmin=0, interpolation="nearest")
        shown = sorted({0, len(steps) // 2, len(steps) - 1})
        axes.set_xticks([i + 1 for i in shown], [f"{steps[i]:,}" for i in shown])
        axes.set_xlabel(f"{unit}s")
    return saved[0]


def bars(histogram: Histogram, edges: np.ndarray) -> np.ndarray:
    """The counts of a histogram between other, ascending edges; a bar that spans several of them is shared out by width."""
    found = np.zeros(len(edges) - 1)
    for (lower, upper), count in zip(histogram.limits, histogram.counts, strict=True):
        if not count:
            continue
        if upper > lower:
            widths = np.clip(np.minimum(edges[1:], upper) - np.maximum(edges[:-1], lower), 0, None)
            found += count * widths / (upper - lower)
        else:
            found[min(max(int(np.searchsorted(edges, lower, side="right")) - 1, 0), len(found) - 1)] += count
    return found


@contextmanager
def _axes(size: tuple[float, float]) -> Iterator[tuple[Axes, list[str]]]:
    """Axes to draw on; afterwards the list has the picture as the address of an `<img>`."""
    from matplotlib import style
    from matplotlib.figure import Figure

    saved: list[str] = []
    with style.context(STYLE):
        figure = Figure(figsize=size)
        yield figure.subplots(), saved
        written = io.BytesIO()
        figure.savefig(written, format="svg", metadata={"Date": None}, transparent=True)
    saved.append("data:image/svg+xml;base64," + base64.b64encode(written.getvalue()).decode())
