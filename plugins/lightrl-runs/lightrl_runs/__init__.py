"""Reports of runs, records of rollouts, and replays of them."""

from lightrl import hookimpl


@hookimpl
def lightrl_callbacks() -> list[str]:
    return ["lightrl_runs.records.record_rollouts:RecordRollouts"]
