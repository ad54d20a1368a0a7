"""Reports of runs, records of rollouts and replays of them, and rewards for validation alone."""

from lightrl import hookimpl


@hookimpl
def lightrl_callbacks() -> list[str]:
    return ["lightrl_runs.held_out_rewards:HeldOutRewards", "lightrl_runs.records.record_rollouts:RecordRollouts"]
