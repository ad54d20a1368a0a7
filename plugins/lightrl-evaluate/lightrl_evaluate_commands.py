"""The command that scores a policy with lm-eval."""

from lightrl import Command, FunctionCommand, hookimpl


class Evaluate(FunctionCommand):
    """Score a policy on tasks of lm-eval, beside the curves of its run."""

    carried_out_by = "lightrl_evaluate.command:evaluate"
    usage = (("--ckpt_path X.ckpt --tasks gsm8k", "scores of lm-eval, also added to the log of the run"),)


@hookimpl
def lightrl_commands() -> list[type[Command]]:
    return [Evaluate]
