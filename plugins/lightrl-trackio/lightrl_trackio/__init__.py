"""Trackio as the log of a run: `trainer.logger: lightrl_trackio.TrackioLogger`."""

from __future__ import annotations

from lightrl_trackio.logger import TrackioLogger

__all__ = ["TrackioLogger"]
