"""The phases of a long step: shown while they last, and timed."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from lightrl.training.reports.statistics import Reporting


class PhaseTimer:
    """Adds up the seconds spent in each phase."""

    def __init__(self, seconds: Mapping[str, float] | None = None) -> None:
        """
        Args:
            seconds: those of phases that are over, by name; None: there was none.
        """
        self.seconds = defaultdict[str, float](float, seconds or {})

    @contextmanager
    def phase(self, name: str, show: Callable[[str], None]) -> Iterator[None]:
        """Show a phase by its name, and time it.

        Args:
            name: of the phase.
            show: is told the name.
        """
        show(name)
        started = time.perf_counter()
        yield
        self.seconds[name] += time.perf_counter() - started

    def add(self, other: PhaseTimer) -> None:
        """Add the seconds of another timer."""
        for name, seconds in other.seconds.items():
            self.seconds[name] += seconds

    def report(self, ledger: Reporting) -> None:
        """Report the seconds since the last time as `perf/{name}_s`."""
        for name, seconds in self.seconds.items():
            ledger.add(f"perf/{name}_s", seconds, reduce="max")
        self.seconds.clear()
