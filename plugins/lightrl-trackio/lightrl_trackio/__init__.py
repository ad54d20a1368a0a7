"""Trackio as the log of a run: `trainer.logger: lightrl_trackio.TrackioLogger`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lightrl_trackio.logger import TrackioLogger

__all__ = ["TrackioLogger"]


def __getattr__(name: str) -> type[TrackioLogger]:
    # the list of plugins imports this package, and not Lightning
    if name != "TrackioLogger":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from lightrl_trackio.logger import TrackioLogger

    return TrackioLogger
