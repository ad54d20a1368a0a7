"""The command that recommends an algorithm."""

from lightrl import Command, FunctionCommand, hookimpl


class Recommend(FunctionCommand):
    """Recommend an algorithm, by what was measured in situations like yours."""

    carried_out_by = "lightrl_recommend.command:recommend"
    usage = (("", "asks four questions, and says which algorithms learnt most in such situations"),)


@hookimpl
def lightrl_commands() -> list[type[Command]]:
    return [Recommend]
