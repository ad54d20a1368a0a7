"""The commands of the core, registered by the same hook as those of every plugin."""

from __future__ import annotations

import gc

from lightrl.command import Command, FunctionCommand
from lightrl.config.read.settings import read_words
from lightrl.config.read.source_keys import refuse_unknown_keys
from lightrl.hookspecs import hookimpl


class OfTrainer(Command):
    """A verb that Lightning's Trainer carries out."""

    needs_model = True

    def run(self, words: list[str]) -> int:
        request = read_words(words)
        # what sources show to be wrong is refused before the slow imports
        refuse_unknown_keys(self.words()[0], request)
        # imports make hundreds of thousands of objects, nearly all of which stay: to search them takes a fifth of the imports' time
        gc.disable()
        try:
            from lightrl.cli.run.trainer_verbs import prepared

            run = prepared(self.words()[0], request)
            gc.freeze()
            gc.enable()
            if run is not None:
                run.start()
        finally:
            gc.enable()
            gc.unfreeze()
        return 0


class Fit(OfTrainer):
    """Train."""

    usage = (
        ("--config dapo.yaml [--rollouts 300] [--KEY VALUE ...]", "train"),
        ("--config dapo.yaml --ckpt_path last", "resume from the newest checkpoint below runs/dapo, in its folder"),
    )


class Validate(OfTrainer):
    """Evaluate on the validation prompts."""

    usage = (("--config dapo.yaml --ckpt_path last", "evaluate on the validation prompts"),)


class Test(OfTrainer):
    """Evaluate on the test prompts."""

    usage = (("--config dapo.yaml --ckpt_path last", "evaluate on the test prompts"),)


class Predict(OfTrainer):
    """Write completions of held-out prompts."""

    usage = (("--config dapo.yaml --ckpt_path last", "write completions of the held-out prompts"),)


class Check(FunctionCommand):
    """Build everything that a run needs, and print sizes and memory."""

    carried_out_by = "lightrl.cli.run.check:check"
    needs_model = True
    usage = (
        ("--config dapo.yaml [--KEY VALUE ...]", "build everything, print sizes and memory; train nothing"),
        ("--config dapo.yaml --no-import", "list the code that a config names; import none of it"),
    )

    def run(self, words: list[str]) -> int:
        # what cannot be read is refused before the slow imports
        request = read_words([word for word in words if word != "--no-import"])
        if "--no-import" not in words:
            refuse_unknown_keys("fit", request)
        return super().run(words)


class Generate(FunctionCommand):
    """Complete prompts of one's own."""

    carried_out_by = "lightrl.cli.data_tools.generate:generate"
    needs_model = True
    usage = (('--policy FOLDER --prompt "493027="', "complete prompts of your own"),)


class Export(FunctionCommand):
    """Write the policy of a checkpoint as a Hugging Face folder."""

    carried_out_by = "lightrl.cli.export.export:export"
    needs_model = True
    usage = (("--ckpt_path FILE --out FOLDER", "write a checkpoint's policy as a Hugging Face folder"),)


class RewardTest(FunctionCommand):
    """Score completions of a file with the rewards of a config."""

    carried_out_by = "lightrl.cli.data_tools.reward_test:reward_test"
    usage = (("--config dapo.yaml --data completions.jsonl", "score completions of a file with the config's rewards"),)


class Algorithms(FunctionCommand):
    """List all installed algorithms."""

    carried_out_by = "lightrl.cli.catalogue.algorithms:algorithms"
    usage = (("", "all installed algorithms"),)


class Explain(FunctionCommand):
    """Describe an algorithm, a part, a kind of part or a public name."""

    carried_out_by = "lightrl.cli.catalogue.explain:explain"
    usage = (("DAPO", "one algorithm: every part with its formula and source"),)


class Diff(FunctionCommand):
    """Show in which arguments two algorithms or configs differ."""

    carried_out_by = "lightrl.cli.catalogue.diff:diff"
    usage = (("GRPO DAPO", "every argument in which they differ; also for two config files"),)


class Configs(FunctionCommand):
    """List the configs of installed packages, or copy one."""

    carried_out_by = "lightrl.cli.catalogue.configs:configs"
    usage = (("[copy dapo]", "configs of installed packages; fit --config dapo finds one"),)


class PluginsList(FunctionCommand):
    """List installed plugins."""

    carried_out_by = "lightrl.cli.catalogue.plugins:list_plugins"
    usage = (("[--json]", "installed plugins, and why one failed to load"),)


class PluginsShow(FunctionCommand):
    """Describe one plugin in full."""

    carried_out_by = "lightrl.cli.catalogue.plugins:show"
    usage = (("NAME", "one plugin: each class with its formula, source and arguments"),)


@hookimpl
def lightrl_commands() -> list[type[Command]]:
    return [Fit, Check, Validate, Test, Predict, Generate, Export, RewardTest, Algorithms, Explain, Diff, Configs, PluginsList, PluginsShow]
