"""The phases of a long step: shown while they last, and timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lightrl.training.statistics import Reporting


class PhaseTimer:
    """Adds up the seconds spent in each phase."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

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
        self._seconds[name] = self._seconds.get(name, 0.0) + time.perf_counter() - started

    def report(self, ledger: Reporting) -> None:
        """Report the seconds since the last time as `perf/{name}_s`."""
        for name, seconds in self._seconds.items():
            ledger.add(f"perf/{name}_s", seconds, reduce="max")
        self._seconds.clear()
