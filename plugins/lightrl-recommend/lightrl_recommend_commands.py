"""The commands that help to choose an algorithm."""

from lightrl import Command, FunctionCommand, hookimpl


class Recommend(FunctionCommand):
    """Recommend an algorithm, by what was measured in situations like yours."""

    carried_out_by = "lightrl_recommend.command:recommend"
    usage = (("", "asks four questions, and says which algorithms learnt most in such situations"),)


class AlgorithmsCompare(FunctionCommand):
    """Compare the installed algorithms in one table."""

    carried_out_by = "lightrl_recommend.algorithms_compare:algorithms_compare"
    option = "--compare"
    usage = (("--compare [NAME ...]", "one table of what sets the installed algorithms apart"),)

    @classmethod
    def words(cls) -> tuple[str, ...]:
        """The verb of the core that the option belongs to."""
        return ("algorithms",)


@hookimpl
def lightrl_commands() -> list[type[Command]]:
    return [Recommend, AlgorithmsCompare]
