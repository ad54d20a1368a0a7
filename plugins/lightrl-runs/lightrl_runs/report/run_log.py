"""The log of a run, whatever wrote the log: numbers, histograms and texts by the rollout after which they stood."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

Entry = TypeVar("Entry")
Series = dict[int, Entry]
"""Entries by the rollout (or step, of a run without rollouts) after which they were made; 0 is before the first one."""


@dataclass(frozen=True)
class Histogram:
    """How many values lie between which limits."""

    limits: tuple[tuple[float, float], ...]
    """Lower and upper limit of each bar."""
    counts: tuple[float, ...]
    """Of each bar."""


@dataclass
class RunLog:
    """All that could be read of the log of a run."""

    numbers: dict[str, Series[float]] = field(default_factory=dict)
    """By name."""
    histograms: dict[str, Series[Histogram]] = field(default_factory=dict)
    """By name, without `histograms/`."""
    texts: dict[str, Series[str]] = field(default_factory=dict)
    """Markdown by name."""
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


def is_validation(name: str) -> bool:
    """The number belongs to a validation, which may come before the first rollout."""
    return name.startswith("val/")
