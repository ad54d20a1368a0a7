"""The commands that upload to the hub."""

from lightrl import Command, FunctionCommand, hookimpl


class Push(FunctionCommand):
    """Upload an exported folder to the hub."""

    carried_out_by = "lightrl_hub.command:push"
    usage = (("FOLDER OWNER/NAME [--public]", "upload an exported folder to the hub, private by default"),)


class ExportPush(FunctionCommand):
    """Write the policy of a checkpoint as a Hugging Face folder, and upload it to the hub."""

    carried_out_by = "lightrl_hub.command:export_and_push"
    needs_model = True
    option = "--push"
    usage = (("--ckpt_path FILE --out FOLDER --push OWNER/NAME", "write a checkpoint's policy and upload it, private by default"),)

    @classmethod
    def words(cls) -> tuple[str, ...]:
        """The verb of the core that the option belongs to."""
        return ("export",)


@hookimpl
def lightrl_commands() -> list[type[Command]]:
    return [Push, ExportPush]
