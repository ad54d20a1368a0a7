"""Rewards on the form of a completion, not on what it says."""

from typing import Any

from lightrl import hookimpl
from lightrl_text.overlong import SoftOverlong

__all__ = ["SoftOverlong"]


@hookimpl
def lightrl_rewards() -> list[type[Any]]:
    return [SoftOverlong]
