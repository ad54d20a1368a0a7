"""The command that draws and keeps completions."""

from lightrl import Command, FunctionCommand, hookimpl


class Sample(FunctionCommand):
    """Draw completions of the training prompts, score them, and keep the best."""

    carried_out_by = "lightrl_rft.sample.sample:sample"
    needs_model = True
    usage = (("--config dapo.yaml --keep best --out best.jsonl", "draw and score completions, keep the best, or pairs"),)


@hookimpl
def lightrl_commands() -> list[type[Command]]:
    return [Sample]
