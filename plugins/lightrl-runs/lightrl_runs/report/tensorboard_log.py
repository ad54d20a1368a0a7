"""Reads the event files that TensorBoard's logger has left in the folder of a run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lightrl_runs.report.run_log import Histogram, RunLog, Series, is_validation

PATTERN = "events.out.tfevents.*"
TEXT = "/text_summary"
"""What TensorBoard puts behind the name of a text."""
HISTOGRAMS = "histograms/"
AROUND_RECORD = 16
"""Bytes of a record's length and checksums."""
EVERYTHING = {"scalars": 0, "tensors": 0, "histograms": 0}


def read_events(folder: Path) -> RunLog:
    """The log of a run from its event files, in the order in which they were written.

    A run that went on from a checkpoint wrote another file, and may have repeated rollouts: then those of the later file count.

    Args:
        folder: of the run.
    """
    log = RunLog(seconds=0.0)
    for file in sorted(folder.glob(PATTERN)):
        if file.stat().st_size:
            _note_damage(log, file)
            _add_file(log, file)
    return log


def _add_file(log: RunLog, file: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator: Any = EventAccumulator(str(file), size_guidance=EVERYTHING)
    accumulator.Reload()
    tags = accumulator.Tags()
    numbers = {name: accumulator.Scalars(name) for name in tags["scalars"]}
    histograms = {name: accumulator.Histograms(name) for name in tags["histograms"] if name.startswith(HISTOGRAMS)}
    texts = {name: accumulator.Tensors(name) for name in tags["tensors"] if name.endswith(TEXT)}
    begun = min((e.wall_time for name, events in numbers.items() if _of_training(name) for e in events), default=float("inf"))
    first = min((e.step for name, events in numbers.items() if _of_training(name) for e in events), default=None)
    if first is not None:
        _drop_from(log, first + 1)
    for name, events in numbers.items():
        log.numbers.setdefault(name, {}).update((_after(name, e, begun), e.value) for e in events)
    for name, events in histograms.items():
        found = {e.step + 1: _histogram(e.histogram_value) for e in events}
        log.histograms.setdefault(name.removeprefix(HISTOGRAMS), {}).update(found)
    for name, events in texts.items():
        log.texts.setdefault(name.removesuffix(TEXT), {}).update((0 if e.wall_time < begun else e.step, _text(e)) for e in events)
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


def _of_training(name: str) -> bool:
    """A number that each rollout has; Lightning adds `epoch` to those of a validation too."""
    return not is_validation(name) and name not in ("epoch", "hp_metric")


def _after(name: str, event: Any, begun: float) -> int:
    """The rollout after which an event stood; the log counts from 0."""
    return 0 if is_validation(name) and event.wall_time < begun and event.step == 0 else int(event.step) + 1


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
