"""The log of a run, from TensorBoard or a CSV table: numbers, histograms and texts by the rollout after which they were logged."""

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

Entry = TypeVar("Entry")
Series = dict[int, Entry]
"""Entries by the rollout (or step, of a run without rollouts) after which they were made; 0 is before the first one."""
TABLE = "metrics.csv"
NO_NUMBER = {"step", "epoch"}
EVENTS = "events.out.tfevents.*"
TEXT = "/text_summary"
"""What TensorBoard puts behind the name of a text."""
HISTOGRAMS = "histograms/"
NO_CURVE = {"epoch", "hp_metric"}
AFTERWARDS = "evaluate/"
"""Numbers that were added to a log after its run, by `lightrl evaluate`."""
AROUND_RECORD = 16
"""Bytes of a record's length and checksums."""
EVERYTHING = {"scalars": 0, "tensors": 0, "histograms": 0}


@dataclass(frozen=True)
class Histogram:
    """How many values lie between which limits."""

    limits: tuple[tuple[float, float], ...]
    """Lower and upper limit of each bar."""
    counts: tuple[float, ...]


@dataclass
class RunLog:
    """All that could be read of the log of a run."""

    numbers: dict[str, Series[float]] = field(default_factory=dict)
    histograms: dict[str, Series[Histogram]] = field(default_factory=dict)
    """By name, without `histograms/`."""
    texts: dict[str, Series[str]] = field(default_factory=dict)
    seconds: float | None = None
    """That the run wrote to its log, pauses between the parts of a resumed run left out; None: the log has no times."""
    last_entry: float | None = None
    """When the log was last written to, in seconds since 1970."""
    damaged: list[str] = field(default_factory=list)
    """Files that could be read only in part, or not at all, with the reason."""

    @property
    def done(self) -> int:
        """The last rollout (or step) that any number stands after."""
        return max((when for series in self.numbers.values() for when in series), default=0)

    def last(self, name: str) -> float | None:
        """The last value of a number; None if it was never logged."""
        series = self.numbers.get(name)
        return series[max(series)] if series else None


def read_table(file: Path) -> RunLog:
    """The log of a run from its `metrics.csv`, whose last line may be cut off; it has no texts, no histograms and no times."""
    log = RunLog(last_entry=file.stat().st_mtime)
    # a longer cell would be an error of the whole table
    csv.field_size_limit(2**31 - 1)
    with file.open(newline="", errors="replace") as table:
        for line, row in enumerate(csv.DictReader(table), start=2):
            try:
                step = int(row["step"])
                values = {name: float(cell) for name, cell in row.items() if cell and name not in NO_NUMBER}
            except (TypeError, ValueError, KeyError):
                log.damaged.append(f"{file.name}, line {line}: not a row of numbers, left out")
                continue
            for name, value in values.items():
                log.numbers.setdefault(name, {})[step] = value
    return log


def read_events(folder: Path) -> RunLog:
    """The log of a run from its event files, in the order in which they were written.

    A run that went on from a checkpoint wrote another file, and may have repeated rollouts: then those of the later file count.
    """
    log = RunLog(seconds=0.0)
    for file in sorted(folder.glob(EVENTS), key=_written):
        if file.stat().st_size:
            _note_damage(log, file)
            _add_file(log, file)
    return log


def _written(file: Path) -> list[int]:
    """Seconds, process and count, from the name; as text, the tenth file of a second would come before the ninth."""
    return [int(number) for number in re.findall(r"\d+", file.name)]


def _add_file(log: RunLog, file: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator: Any = EventAccumulator(str(file), size_guidance=EVERYTHING)
    accumulator.Reload()
    tags = accumulator.Tags()
    numbers = {name: accumulator.Scalars(name) for name in tags["scalars"]}
    histograms = {name: accumulator.Histograms(name) for name in tags["histograms"] if name.startswith(HISTOGRAMS)}
    texts = {name: accumulator.Tensors(name) for name in tags["tensors"] if name.endswith(TEXT)}
    made = [e.step for name in numbers.keys() - NO_CURVE if not name.startswith(AFTERWARDS) for e in numbers[name]]
    if first := min(made, default=0):
        _drop_from(log, first)
    for name, events in numbers.items():
        log.numbers.setdefault(name, {}).update((e.step, e.value) for e in events)
    for name, events in histograms.items():
        found = {e.step: _histogram(e.histogram_value) for e in events}
        log.histograms.setdefault(name.removeprefix(HISTOGRAMS), {}).update(found)
    for name, events in texts.items():
        log.texts.setdefault(name.removesuffix(TEXT), {}).update((e.step, _text(e)) for e in events)
    times = [e.wall_time for events in numbers.values() for e in events]
    if times:
        log.seconds = (log.seconds or 0.0) + max(times) - min(times)
        log.last_entry = max(log.last_entry or 0.0, *times)


def _note_damage(log: RunLog, file: Path) -> None:
    """TensorBoard's reader passes over the rest of a file in silence when a record is incomplete or does not match its checksum."""
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader

    size = file.stat().st_size
    whole = sum(len(record) + AROUND_RECORD for record in RawEventFileLoader(str(file)).Load())
    if whole < size:
        log.damaged.append(f"{file.name}: read up to byte {whole:,} of {size:,}; what follows is incomplete or damaged")


def _drop_from(log: RunLog, when: int) -> None:
    every: Iterable[Series[Any]] = [*log.numbers.values(), *log.histograms.values(), *log.texts.values()]
    for series in every:
        for late in [step for step in series if step >= when]:
            del series[late]


def _histogram(values: Any) -> Histogram:
    """TensorBoard's bars, the outer ones cut to the range of the values."""
    limits, lower = [], float(values.min)
    for limit in values.bucket_limit:
        upper = min(max(float(limit), lower), float(values.max))
        limits.append((lower, upper))
        lower = upper
    return Histogram(tuple(limits), tuple(float(count) for count in values.bucket))


def _text(event: Any) -> str:
    return str(event.tensor_proto.string_val[0].decode(errors="replace"))
