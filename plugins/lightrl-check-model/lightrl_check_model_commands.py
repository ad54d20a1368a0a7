"""The command that checks a model."""

from lightrl import Command, FunctionCommand, hookimpl


class CheckModel(FunctionCommand):
    """Find faults of a model that would spoil its training."""

    carried_out_by = "lightrl_check_model.command:check_model"
    usage = (("PATH | --tiny llama", "find faults of a model that would spoil its training"),)

    @classmethod
    def words(cls) -> tuple[str, ...]:
        """One word: `check` is a verb of its own."""
        return ("check-model",)


@hookimpl
def lightrl_commands() -> list[type[Command]]:
    return [CheckModel]
