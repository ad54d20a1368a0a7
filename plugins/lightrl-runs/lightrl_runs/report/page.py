"""The page: what stands in it, and its HTML."""

import base64
import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from lightrl import __version__
from lightrl.callbacks.dashboard import LAYOUT
from lightrl_runs.report.drawing import chart, heat_map
from lightrl_runs.report.line import Line, differences, ends, lines_of
from lightrl_runs.report.logs import NO_CURVE
from lightrl_runs.report.report import GENERATOR
from lightrl_runs.report.run_folder import RunFolder, cost, state, unit_of
from lightrl_runs.report.texts import alarms_of, samples

HERE = Path(__file__).parent
HEADLINES = ("val/reward", "reward", "completions/mean_length", "entropy", "entropy_estimate", "val/accuracy", "val/loss", "loss")
"""Numbers of the charts at the top, the most telling first."""
MOST_HEADLINES = 4
MOST_OWN = 3
DISTRIBUTIONS = {"reward": "reward", "length": "tokens of a completion"}
"""Histograms of the page, and what their values are."""


@dataclass(frozen=True)
class Chart:
    """A picture with the number that it shows."""

    name: str
    picture: str
    """Address of the `<img>`."""
    said: str
    """What it shows, for those who do not see it."""


def page(runs: Sequence[RunFolder]) -> str:
    """The HTML of the report.

    Every text of a log or a config is escaped, and the page forbids the browser to load or to run anything.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    lines = lines_of(list(runs))
    css = (HERE / "page.css").read_text() + "".join(f".line-{line.letter} {{ background: {line.colour}; }}\n" for line in lines)
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    units, differing = {unit_of(run) for run in runs}, differences(lines)
    unit = units.pop() if len(units) == 1 else "rollout or step"
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("page.html").render(
        generator=GENERATOR,
        css=css,
        policy=f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
        version=__version__,
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        unit=unit,
        lines=lines,
        runs=runs,
        states={run.path: state(run) for run in runs},
        costs={run.path: cost(run) for run in runs},
        cost_names=list(dict.fromkeys(name for run in runs for name in cost(run))),
        alarms=[(line, alarm) for line in lines for alarm in alarms_of(line)],
        headlines=[_chart(lines, name, unit, wide=True) for name in headlines(lines)],
        titles=[_title(line, [(key, values[i]) for key, values in differing.items()]) for i, line in enumerate(lines)],
        differences=differing,
        sampled=[(line, line.runs[0], *samples(line.runs[0].log)) for line in lines],
        distributions=[chart for line in lines for chart in _distributions(line, unit)],
        categories=_categories(lines, unit),
        lasts={name: [ends(line.series(name)) for line in lines] for name in sorted(_names(lines))},
    )


def _title(line: Line, own: Sequence[tuple[str, str]]) -> str:
    """The settings that are a line's own, if they are few, or the folder of its first run; and the number of its runs."""
    count = f"({len(line.runs)} runs)" if len(line.runs) > 1 else "(1 run)"
    few = ", ".join(f"{key.rpartition('.')[2]} {value}" for key, value in own)
    return f"{few if 0 < len(own) <= MOST_OWN else line.runs[0].path} {count}"


def headlines(lines: Sequence[Line]) -> list[str]:
    """The numbers at the top."""
    names = _names(lines)
    return [name for name in HEADLINES if name in names][:MOST_HEADLINES]


def _names(lines: Iterable[Line]) -> set[str]:
    return {name for line in lines for run in line.runs for name, series in run.log.numbers.items() if series} - NO_CURVE


def _chart(lines: Sequence[Line], name: str, unit: str, wide: bool = False) -> Chart:
    lasts = [(line.letter, ends(line.series(name))) for line in lines]
    return Chart(name, chart(lines, name, unit, wide), "at the end: " + ", ".join(f"{letter} {last}" for letter, last in lasts if last))


def _distributions(line: Line, unit: str) -> list[Chart]:
    logged = {
        title: [run.log.histograms[name] for run in line.runs if run.log.histograms.get(name)] for name, title in DISTRIBUTIONS.items()
    }
    pictures = {title: heat_map(records, unit, line.colour) for title, records in logged.items() if records}
    return [Chart(f"{line.letter}: {title}", picture, "the darker, the more completions") for title, picture in pictures.items()]


def _categories(lines: Sequence[Line], unit: str) -> dict[str, tuple[list[Chart], dict[str, float]]]:
    """The charts of TensorBoard's dashboard, a picture for each number, without those at the top; and numbers that never changed."""
    names = _names(lines) - set(headlines(lines))
    found: dict[str, tuple[list[Chart], dict[str, float]]] = {}
    for category, charts in LAYOUT.items():
        patterns = [pattern for patterns in charts.values() for pattern in patterns]
        shown = dict.fromkeys(name for pattern in patterns for name in sorted(names) if re.fullmatch(pattern, name))
        if shown and category != "Alarms":
            values = {name: {value for line in lines for one in line.series(name) for value in one.values()} for name in shown}
            still = {name: next(iter(found)) for name, found in values.items() if len(found) == 1}
            found[category] = [_chart(lines, name, unit) for name in shown if name not in still], still
    return found
