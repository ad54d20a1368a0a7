"""The commands that look at runs."""

from __future__ import annotations

from typing import Any

from lightrl import Command, hookimpl


class Report(Command):
    """Draw runs in one HTML page."""

    usage = (("RUN [RUN ...]", "curves, samples, alarms and cost of runs in one HTML page"),)

    def run(self, words: list[str]) -> int:
        from lightrl_runs.report.report import report

        return report(words)


class Replay(Command):
    """Learn once more from a recorded rollout."""

    needs_model = True
    usage = (("RUN [--algorithm GSPO]", "learn again from a recorded rollout; two algorithms side by side"),)

    def run(self, words: list[str]) -> int:
        from lightrl_runs.replay.replay import replay

        return replay(words)


@hookimpl
def lightrl_commands() -> list[type[Any]]:
    return [Report, Replay]
