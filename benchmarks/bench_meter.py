"""Processor time of a training run by step and phase; on either side of a comparison, so that it knows neither framework."""

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


class Meter:
    """Counts the processor time of this process, all threads, between the ends of steps, and how much of it lies in which phase."""

    def __init__(self) -> None:
        self.steps: list[dict[str, float]] = []
        self.tokens = 0.0
        self._inside = False
        self._phases = dict.fromkeys(PHASES, 0.0)
        self._since = time.process_time()

    def watch(self, owner: Any, name: str, phase: str) -> None:
        """Count a method or a function of a module as a phase; what it calls belongs to it, whatever that is."""
        inner: Callable[..., Any] = getattr(owner, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            if self._inside:
                return inner(*args, **kwargs)
            self._inside, begun = True, time.process_time()
            try:
                return inner(*args, **kwargs)
            finally:
                self._inside = False
                self._phases[phase] += time.process_time() - begun

        setattr(owner, name, timed)

    def step(self, **more: float) -> None:
        """A step has ended.

        Args:
            **more: what else is to be noted of it.
        """
        now = time.process_time()
        self.steps.append({"cpu_s": now - self._since, "tokens": self.tokens, **self._phases, **more})
        self.tokens, self._phases, self._since = 0.0, dict.fromkeys(PHASES, 0.0), now

    def write(self, file: Path) -> None:
        """Write the steps and the peak of the process's memory, whole or not at all."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        unfinished = file.with_suffix(".part")
        unfinished.write_text(json.dumps({"steps": self.steps, "peak_gb": peak}))
        unfinished.replace(file)
