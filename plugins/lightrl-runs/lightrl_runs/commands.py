"""The commands that look at runs."""

from lightrl import Command, FunctionCommand, hookimpl


class Report(FunctionCommand):
    """Draw runs in one HTML page."""

    carried_out_by = "lightrl_runs.report.report:report"
    usage = (("RUN [RUN ...]", "curves, samples, alarms and cost of runs in one HTML page"),)


class Replay(FunctionCommand):
    """Learn once more from a recorded rollout."""

    carried_out_by = "lightrl_runs.replay.replay:replay"
    needs_model = True
    usage = (("RUN [--algorithm GSPO]", "learn again from a recorded rollout; two algorithms side by side"),)


@hookimpl
def lightrl_commands() -> list[type[Command]]:
    return [Report, Replay]
