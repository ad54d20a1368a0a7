"""Rewards for programs, which run where they can do no harm."""

from typing import Any

from lightrl import hookimpl
from lightrl_code.unit_tests import UnitTests

__all__ = ["UnitTests"]


@hookimpl
def lightrl_rewards() -> list[type[Any]]:
    return [UnitTests]
