"""Rewards for programs, tools that the policy may call, and Python as one of them; programs run where they can do no harm."""

from typing import Any

from lightrl import hookimpl
from lightrl_code.python_tool import run_python
from lightrl_code.tools.tool_environment import ToolEnvironment
from lightrl_code.tools.tool_run import ToolUnavailableError
from lightrl_code.unit_tests import UnitTests

__all__ = ["ToolEnvironment", "ToolUnavailableError", "UnitTests", "run_python"]


@hookimpl
def lightrl_rewards() -> list[type[Any]]:
    return [UnitTests]


@hookimpl
def lightrl_environments() -> list[type[Any]]:
    return [ToolEnvironment]
