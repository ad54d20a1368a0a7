"""Rewards for programs, and Python as a tool; both run programs where they can do no harm."""

from typing import Any

from lightrl import hookimpl
from lightrl_code.python_tool import run_python
from lightrl_code.unit_tests import UnitTests

__all__ = ["UnitTests", "run_python"]


@hookimpl
def lightrl_rewards() -> list[type[Any]]:
    return [UnitTests]
