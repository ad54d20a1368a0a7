"""The command that attacks rewards."""

from lightrl import Command, FunctionCommand, hookimpl


class RewardAttack(FunctionCommand):
    """Try to earn the rewards of a config without doing the task."""

    carried_out_by = "lightrl_attack.reward_attack:reward_attack"
    usage = (("--config dapo.yaml", "what is earned without doing the task, and which reward pays it"),)


@hookimpl
def lightrl_commands() -> list[type[Command]]:
    return [RewardAttack]
