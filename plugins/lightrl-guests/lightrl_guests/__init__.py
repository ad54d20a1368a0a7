"""Environments that were written for other frameworks: classes of TRL, unchanged, and servers of OpenEnv."""

from lightrl import hookimpl
from lightrl_guests.openenv import OpenEnv
from lightrl_guests.openenv_session import OpenEnvError
from lightrl_guests.trl_environment import TRLEnvironment

__all__ = ["OpenEnv", "OpenEnvError", "TRLEnvironment"]


@hookimpl
def lightrl_environments() -> list[type]:
    return [OpenEnv, TRLEnvironment]
