"""LightningCLI over a config that is already resolved: it builds the objects and runs the Trainer."""

from __future__ import annotations

import sys
from typing import Any

import yaml
from jsonargparse import ArgumentError, lazy_instance, set_parsing_settings
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Trainer
from lightning.pytorch.cli import LightningCLI
from lightning.pytorch.loggers import TensorBoardLogger

from lightrl.callbacks.default_callbacks import beside
from lightrl.callbacks.predictions import WriteCompletions
from lightrl.callbacks.resume_report import ResumeReport
from lightrl.callbacks.run_description import DescribeRun
from lightrl.config.config_yaml import SaveResolvedConfig, config_yaml
from lightrl.config.errors import ConfigError
from lightrl.config.parser_errors import reduced
from lightrl.config.resolve import Resolved
from lightrl.config.resumed_folder import continue_in_folder_of
from lightrl.strategies.parent_watchdog import end_with_parent


class PolicyCLI(LightningCLI):
    """LightningCLI with the classes, defaults and words of one resolved config."""

    def __init__(self, verb: str, resolved: Resolved, run: bool = True, print_config: bool = False) -> None:
        """
        Args:
            verb: fit, validate, test or predict.
            resolved: the config.
            run: carry out the verb; False only builds model, data and trainer.
            print_config: print the config and build nothing.

        Raises:
            ConfigError: Lightning's parser refuses the config.
            SystemExit: with status 0 after the config was printed.
        """
        end_with_parent()
        # the fields of records are documented under themselves; reading that takes half a second, which only help is worth
        set_parsing_settings(docstring_parse_attribute_docstrings="--help" in resolved.other)
        self._verb, self._resolved, self._print_config = verb, resolved, print_config
        kwargs = {"exit_on_error": False}
        words = resolved.words
        super().__init__(
            model_class=resolved.model.cls,
            datamodule_class=resolved.data.cls,
            save_config_callback=SaveResolvedConfig,
            trainer_defaults=trainer_defaults(resolved.folder, resolved.name),
            seed_everything_default=0,
            parser_kwargs={**kwargs, verb: dict(kwargs)} if run else kwargs,
            args=[verb, *words] if run else words,
            run=run,
            auto_configure_optimizers=False,
        )

    def subcommands(self) -> dict[str, set[str]]:  # type: ignore[override]
        """Only the verb at hand: each costs a parser."""
        return {self._verb: LightningCLI.subcommands()[self._verb]}

    def parse_arguments(self, parser: Any, args: Any) -> None:
        """Parse, say shortly what is wrong, and print the config if that was asked for."""
        try:
            self.config = parser.parse_args(args)
        except ArgumentError as error:
            raise reduced(str(error)) from error
        if self._print_config:
            sys.stdout.write(self.text())
            raise SystemExit(0)

    def text(self) -> str:
        """The resolved config as YAML."""
        verb = self.config.get("subcommand")
        classes = {"model": self._resolved.model.cls, "data": self._resolved.data.cls}
        return config_yaml(self._parser(verb), self.config[verb] if verb else self.config, classes)

    def before_instantiate_classes(self) -> None:
        """Hand the config's text to the callback that saves it."""
        self.save_config_callback = type("SaveConfig", (SaveResolvedConfig,), {"text": self.text()})

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        """The Trainer with the callbacks that every run has."""
        config = self._get(self.config_init, "trainer")
        given = config["callbacks"] or []
        callbacks = beside(
            given if isinstance(given, list) else [given],
            bar=config["enable_progress_bar"] is not False,
            checkpoints=config["enable_checkpointing"] is not False,
        )
        self.trainer_defaults["callbacks"] = [*callbacks, *self._describing(), *([WriteCompletions()] if self._verb == "predict" else [])]
        try:
            return super().instantiate_trainer(**kwargs)
        except (ValueError, TypeError, MisconfigurationException) as error:
            raise ConfigError("trainer", str(error).splitlines()[0]) from error

    def _describing(self) -> list[DescribeRun]:
        model = self._resolved.model
        return [DescribeRun(model.value("algorithm") if "algorithm" in model.takes else None)] if self._verb == "fit" else []

    def before_fit(self) -> None:
        """Let checkpoints and logs say what the run was made of, and a resumed run go on in its own folder."""
        for callback in self.trainer.callbacks:  # type: ignore[attr-defined]
            if isinstance(callback, DescribeRun):
                callback.text = self.text()
            if isinstance(callback, ResumeReport):
                callback.config = yaml.safe_load(self.text())
        continue_in_folder_of(self._get(self.config, "ckpt_path"), self.trainer.loggers)

    def before_validate(self) -> None:
        """Refuse to evaluate nothing."""
        self._needs_prompts("validation")

    def before_test(self) -> None:
        """Refuse to evaluate nothing."""
        self._needs_prompts("test")

    def before_predict(self) -> None:
        """Refuse to complete nothing."""
        self._needs_prompts("test", "validation")

    def _needs_prompts(self, *names: str) -> None:
        sizes = self.datamodule.sizes() if hasattr(self.datamodule, "sizes") else {}
        if sizes and not any(sizes[name] for name in names):
            example = f"--data.{names[0]} JsonLines --data.{names[0]}.path FILE.jsonl"
            problem = f"there are no {' or '.join(names)} prompts to {self._verb}."
            raise ConfigError(f"data.{names[0]}", problem, f"Type for example: {example}")

    def _parse_ckpt_path(self) -> None:
        """The config says what the model is: Lightning would let the checkpoint's hyperparameters override it."""


def trainer_defaults(folder: str, name: str) -> dict[str, Any]:
    """What suits reinforcement learning where Lightning's own defaults do not.

    Args:
        folder: below which runs are logged.
        name: of the run; each gets a new version below it.
    """
    return {
        "default_root_dir": folder,
        "logger": lazy_instance(TensorBoardLogger, save_dir=folder, name=name),
        "log_every_n_steps": 1,
        "num_sanity_val_steps": 0,
        "use_distributed_sampler": False,
    }
