"""The command that has a judge compare completions."""

from lightrl import Command, FunctionCommand, hookimpl


class RewardPairs(FunctionCommand):
    """Ask a judge which of two completions is better."""

    carried_out_by = "lightrl_judge.reward_pairs:reward_pairs"
    usage = (("--config judge.yaml --data completions.jsonl --out pairs.jsonl", "ask a judge which of two completions is better, for DPO"),)


@hookimpl
def lightrl_commands() -> list[type[Command]]:
    return [RewardPairs]
