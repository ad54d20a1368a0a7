"""The commands of the core, registered by the same hook as those of every plugin."""

from __future__ import annotations

from typing import Any

from lightrl.command import Command
from lightrl.hookspecs import hookimpl


class OfTrainer(Command):
    """A verb that Lightning's Trainer carries out."""

    needs_model = True

    def run(self, words: list[str]) -> int:
        from lightrl.cli.run.trainer_verbs import carry_out

        return carry_out(self.words()[0], words)


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


class Check(Command):
    """Build everything that a run needs, and print sizes and memory."""

    needs_model = True
    usage = (
        ("--config dapo.yaml [--KEY VALUE ...]", "build everything, print sizes and memory; train nothing"),
        ("--config dapo.yaml --no-import", "list the code that a config names; import none of it"),
    )

    def run(self, words: list[str]) -> int:
        from lightrl.cli.run.check import check

        return check(words)


class Generate(Command):
    """Complete prompts of one's own."""

    needs_model = True
    usage = (('--policy FOLDER --prompt "493027="', "complete prompts of your own"),)

    def run(self, words: list[str]) -> int:
        from lightrl.cli.data_tools.generate import generate

        return generate(words)


class Export(Command):
    """Write the policy of a checkpoint as a Hugging Face folder."""

    needs_model = True
    usage = (("--ckpt_path FILE --out FOLDER", "write a checkpoint's policy as a Hugging Face folder"),)

    def run(self, words: list[str]) -> int:
        from lightrl.cli.export.export import export

        return export(words)


class RewardTest(Command):
    """Score completions of a file with the rewards of a config."""

    usage = (("--config dapo.yaml --data completions.jsonl", "score completions of a file with the config's rewards"),)

    def run(self, words: list[str]) -> int:
        from lightrl.cli.data_tools.reward_test import reward_test

        return reward_test(words)


class Algorithms(Command):
    """List or compare all installed algorithms."""

    usage = (("[--compare]", "a list or a table of all installed algorithms"),)

    def run(self, words: list[str]) -> int:
        from lightrl.cli.catalogue.algorithms import algorithms

        return algorithms(words)


class Explain(Command):
    """Describe an algorithm, a part, a kind of part or a public name."""

    usage = (("DAPO", "one algorithm: every part with its formula and source"),)

    def run(self, words: list[str]) -> int:
        from lightrl.cli.catalogue.explain import explain

        return explain(words)


class Diff(Command):
    """Show in which arguments two algorithms or configs differ."""

    usage = (("GRPO DAPO", "every argument in which they differ; also for two config files"),)

    def run(self, words: list[str]) -> int:
        from lightrl.cli.catalogue.diff import diff

        return diff(words)


class Configs(Command):
    """List the configs of installed packages, or copy one."""

    usage = (("[copy dapo]", "configs of installed packages; fit --config dapo finds one"),)

    def run(self, words: list[str]) -> int:
        from lightrl.cli.catalogue.configs import configs

        return configs(words)


class PluginsList(Command):
    """List installed plugins."""

    usage = (("[--json]", "installed plugins, and why one failed to load"),)

    def run(self, words: list[str]) -> int:
        from lightrl.cli.catalogue.plugins import list_plugins

        return list_plugins(words)


class PluginsShow(Command):
    """Describe one plugin in full."""

    usage = (("NAME", "one plugin: each class with its formula, source and arguments"),)

    def run(self, words: list[str]) -> int:
        from lightrl.cli.catalogue.plugins import show

        return show(words)


@hookimpl
def lightrl_commands() -> list[type[Any]]:
    return [Fit, Check, Validate, Test, Predict, Generate, Export, RewardTest, Algorithms, Explain, Diff, Configs, PluginsList, PluginsShow]
