"""Environments that were written for other frameworks: classes of TRL, unchanged, servers of OpenEnv, and task sets of verifiers."""

from lightrl import hookimpl
from lightrl_guests.openenv import OpenEnv
from lightrl_guests.openenv_session import OpenEnvError
from lightrl_guests.trl_environment import TRLEnvironment
from lightrl_guests.verifiers_environment import VerifiersEnvironment
from lightrl_guests.verifiers_play import VerifiersError

__all__ = ["OpenEnv", "OpenEnvError", "TRLEnvironment", "VerifiersEnvironment", "VerifiersError"]


@hookimpl
def lightrl_environments() -> list[type]:
    return [OpenEnv, TRLEnvironment, VerifiersEnvironment]
