"""Environments that were written for other frameworks: classes of TRL, unchanged."""

from lightrl import hookimpl
from lightrl_guests.trl_environment import TRLEnvironment

__all__ = ["TRLEnvironment"]


@hookimpl
def lightrl_environments() -> list[type]:
    return [TRLEnvironment]
