"""Time and memory of a training run by step and phase; on either side of a comparison, so that it knows neither framework."""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

PHASES = ("generate", "forward", "backward", "optimizer")


def cpu_of_all() -> float:
    """Processor time of this process and of all that it has started."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    alive = (child.cpu_times() for child in psutil.Process().children(recursive=True))
    return time.process_time() + ended.ru_utime + ended.ru_stime + sum(times.user + times.system for times in alive)


def processor_peak() -> float:
    """Peak of this process's memory in GB."""
    # `ru_maxrss` is never below what the process that has started this one had
    _, _, peak = Path("/proc/self/status").read_text().partition("VmHWM:")
    return int(peak.split()[0]) / 2**20


class Meter:
    """Counts the time of this process between the ends of steps, and how much of it lies in which phase."""

    def __init__(self, clock: Callable[[], float] = time.process_time, peak: Callable[[], float] = processor_peak) -> None:
        """
        Args:
            clock: seconds; by default of the processor, all threads of this process.
            peak: GB of memory that were in use at once.
        """
        self._clock, self._peak = clock, peak
        self.steps: list[dict[str, float]] = []
        self.tokens = 0.0
        self._inside = False
        self._phases = dict.fromkeys(PHASES, 0.0)
        self._since = clock()

    def watch(self, owner: Any, name: str, phase: str) -> None:
        """Count a method or a function of a module as a phase; what it calls belongs to it."""
        inner: Callable[..., Any] = getattr(owner, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            if self._inside:
                return inner(*args, **kwargs)
            self._inside, begun = True, self._clock()
            try:
                return inner(*args, **kwargs)
            finally:
                self._inside = False
                self._phases[phase] += self._clock() - begun

        setattr(owner, name, timed)

    def step(self, **more: float) -> None:
        """A step has ended.

        Args:
            **more: what else is to be noted of it.
        """
        now = self._clock()
        self.steps.append({"seconds": now - self._since, "tokens": self.tokens, **self._phases, **more})
        self.tokens, self._phases, self._since = 0.0, dict.fromkeys(PHASES, 0.0), now

    def write(self, file: Path) -> None:
        """Write the steps and the peak of memory, whole or not at all."""
        unfinished = file.with_suffix(".part")
        unfinished.write_text(json.dumps({"steps": self.steps, "peak_gb": self._peak()}))
        unfinished.replace(file)
