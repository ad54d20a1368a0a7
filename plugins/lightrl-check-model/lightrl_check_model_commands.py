"""The command that checks a model."""

from __future__ import annotations

from typing import Any

from lightrl import Command, hookimpl


class CheckModel(Command):
    """Find faults of a model that would spoil its training."""

    usage = (("PATH | --tiny llama", "find faults of a model that would spoil its training"),)

    @classmethod
    def words(cls) -> tuple[str, ...]:
        """One word: `check` is a verb of its own."""
        return ("check-model",)

    def run(self, words: list[str]) -> int:
        from lightrl_check_model.command import check_model

        return check_model(words)


@hookimpl
def lightrl_commands() -> list[type[Any]]:
    return [CheckModel]
