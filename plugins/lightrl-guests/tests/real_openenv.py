"""A server of the real package with the game of doors, and faults in it that `reset` is told; it runs in a Python that has `openenv`."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lightrl_guests" / "examples"))

import doors
from doors import Doors, Opened, Seen
from pydantic import field_validator

DARK = 6
"""A door that the action's own check refuses."""


class Lit(Opened):
    """Any door but one."""

    @field_validator("door")
    @classmethod
    def lit(cls, door: int) -> int:
        if door == DARK:
            raise ValueError("it is dark")
        return door


class Faulty(Doors):
    """The game, with a fault."""

    def reset(self, seed: int | None = None, episode_id: str | None = None, fault: str = "", **kwargs: Any) -> Seen:
        self._fault = fault
        if fault == "reset raises":
            raise RuntimeError("the house is locked")
        return super().reset(seed, episode_id)

    def step(self, action: Opened, timeout_s: float | None = None, **kwargs: Any) -> Seen:
        if self._fault == "step raises":
            raise RuntimeError("the key broke")
        if self._fault == "no sign":
            return Seen(reward=1.0)
        if self._fault == "late":
            time.sleep(3)
        if self._fault == "dies":
            os._exit(1)
        seen = super().step(action)
        return seen.model_copy(update={"metadata": {"rooms": 4}}) if self._fault == "metadata" else seen


if __name__ == "__main__":
    doors.main(Faulty, Lit)
