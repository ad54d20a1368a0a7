"""The `trainer` section and the arguments of a verb: jsonargparse reads and completes them, and builds the Trainer."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import torch
import yaml
from jsonargparse import ArgumentError, ArgumentParser, lazy_instance
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Callback, Trainer, seed_everything
from lightning.pytorch.cli import LightningArgumentParser
from lightning.pytorch.loggers import TensorBoardLogger

from lightrl.config.merge.resolve import Resolved
from lightrl.config.read.refusals import ConfigError
from lightrl.config.read.settings import FOLDER
from lightrl.config.read.source_keys import GIVEN_BY_US, OF_TORCH, verb_keys
from lightrl.registry.classes import closest
from lightrl.strategies.adapter_choice import strategy_names
from lightrl.strategies.deepspeed import DeepSpeedNeedsError, refuse_without_deepspeed


class TrainerSection:
    """The arguments of the Trainer and of the verb that it carries out, all of them in force."""

    def __init__(self, verb: str, resolved: Resolved) -> None:
        """Read them; a ConfigError if an argument is refused."""
        self._name = resolved.name
        self.verb, self._parser = verb, trainer_parser(verb, resolved.folder, resolved.name)
        try:
            self._values = self._parser.parse_args([*resolved.trainer_words, *resolved.rollouts.words])
        except ArgumentError as error:
            raise reduced(str(error)) from error
        self._check_deepspeed()

    def prepare(self) -> None:
        """Say how torch multiplies in float32, and seed Python, NumPy and torch.

        A seed that is drawn (`seed_everything: true`) is in the config from then on.
        """
        torch.set_float32_matmul_precision(self._values["float32_matmul_precision"])
        wanted = self._values["seed_everything"]
        if wanted is not False:
            self._values["seed_everything"] = seed_everything(None if wanted is True else wanted, workers=True)

    def as_config(self) -> dict[str, Any]:
        """Every argument under its key, as a config file has it."""
        tree: dict[str, Any] = yaml.safe_load(self._parser.dump(self._values, skip_unset=False))
        return {key: value for key, value in tree.items() if key != "config"}

    def build(self, more_callbacks: Callable[[dict[str, Any]], list[Callback]]) -> Trainer:
        """The Trainer, with the callbacks of the config and those that are given its arguments.

        Raises:
            ConfigError: the Trainer refuses an argument.
        """
        try:
            self._complete_mlflow()
            arguments = dict(vars(self._parser.instantiate(self._values)["trainer"]))
            given = arguments["callbacks"] or []
            arguments["callbacks"] = given if isinstance(given, list) else [given]
            arguments["callbacks"] = [*arguments["callbacks"], *more_callbacks(arguments)]
            _check_hardware(arguments["strategy"], arguments["accelerator"])
            return Trainer(**arguments)
        except (ValueError, TypeError, OverflowError, ImportError, MisconfigurationException) as error:
            raise ConfigError("trainer", cause_of(str(error))) from error

    def _check_deepspeed(self) -> None:
        given = self._values["trainer"]["strategy"]
        name = str(getattr(given, "class_path", given)).rpartition(".")[2]
        if name.lower().endswith("deepspeedstrategy") or name.startswith("deepspeed"):
            try:
                refuse_without_deepspeed(f"trainer.strategy: {name}")
            except DeepSpeedNeedsError as error:
                raise ConfigError("", str(error)) from error

    def _complete_mlflow(self) -> None:
        # Lightning's default is a folder of files, which MLflow refuses since its version 3
        given = self._values["trainer"]["logger"]
        for logger in given if isinstance(given, list) else [given]:
            arguments = getattr(logger, "init_args", None)
            if arguments is not None and "tracking_uri" in arguments:
                folder = Path(arguments["save_dir"] or FOLDER).resolve()
                arguments["run_name"] = arguments["run_name"] or self._name
                # what Lightning calls an experiment without a name
                if arguments["experiment_name"] == "lightning_logs":
                    arguments["experiment_name"] = "lightrl"
                if arguments["tracking_uri"] is None and "MLFLOW_TRACKING_URI" not in os.environ:
                    folder.mkdir(parents=True, exist_ok=True)
                    arguments["tracking_uri"] = f"sqlite:///{folder / 'mlflow.db'}"
                    arguments["artifact_location"] = arguments["artifact_location"] or str(folder / "mlflow")

    @property
    def verb_arguments(self) -> dict[str, Any]:
        """The arguments of the Trainer's method for this verb, beside model and data."""
        return {name: self._values[name] for name in verb_keys(self.verb) if name not in OF_TORCH}


def _check_hardware(strategy: object, accelerator: object) -> None:
    """Refuse what Lightning would refuse in words that do not say what to type."""
    names = ["auto", *strategy_names()]
    if isinstance(strategy, str) and strategy not in names:
        problem = f"there is no strategy {strategy!r}.{closest(strategy, names)} Names: {', '.join(names)}."
        raise ConfigError("trainer.strategy", problem, "What each one shards: docs/scale.md")
    found = torch.cuda.is_available() or (accelerator == "gpu" and torch.backends.mps.is_available())
    if accelerator in ("gpu", "cuda") and not found:
        build = "CPUs alone" if torch.version.cuda is None else f"CUDA {torch.version.cuda}: does nvidia-smi list one?"
        problem = f"{accelerator!r} needs a GPU, and torch finds none: torch {torch.__version__} is built for {build}"
        raise ConfigError("trainer.accelerator", problem, "Type for example: --trainer.accelerator auto, which takes what there is")


def trainer_parser(verb: str, folder: str, name: str) -> ArgumentParser:
    """A parser of everything in a config but `model` and `data`, with the defaults that suit reinforcement learning."""
    parser = LightningArgumentParser(prog=f"lightrl {verb}", description=f"Carry out `Trainer.{verb}`.", exit_on_error=False)
    parser.add_argument("-c", "--config", action="config", help="A YAML file, or the name of a config that a package brings.")
    seed = "Seed of Python, NumPy and torch, set before anything is built; true draws one, false leaves them alone."
    parser.add_argument("--seed_everything", type=bool | int, default=0, help=seed)
    matmul = (
        "How torch multiplies matrices in float32: highest as float32; high, on a GPU, with 10 bits of their numbers (TF32), several times "
        "faster; medium with 7 (bfloat16)."
    )
    parser.add_argument("--float32_matmul_precision", type=Literal["highest", "high", "medium"], default="highest", help=matmul)
    # as its `add_lightning_class_args`, but for sub_configs: a text in place of a class would be read as a file of YAML
    parser.add_class_arguments(Trainer, "trainer", fail_untyped=False, instantiate=False)
    parser.set_defaults(
        {
            "trainer.default_root_dir": folder,
            "trainer.enable_model_summary": False,
            "trainer.logger": lazy_instance(TensorBoardLogger, save_dir=folder, name=name),
            "trainer.log_every_n_steps": 1,
            "trainer.num_sanity_val_steps": 0,
            "trainer.use_distributed_sampler": False,
        }
    )
    parser.add_method_arguments(Trainer, verb, skip=GIVEN_BY_US)
    return parser


_KEY = re.compile(r"[Pp]arser key \"([^\"]+)\"")
_PROBLEM = re.compile(r"Problem with given class_path '([^']+)':\s+(\S.*)")
_ITEM = re.compile(r"Errors:\s+- (?!Problem|Expected|Not a valid)(.+)")
_CAUSES = (
    r"Option '.*' is not accepted",
    r"arguments are required|required",
    r"No module named|not a correct import path|not valid\b",
    r"abstract|not allowed|unexpected|No action",
    r"Expected",
)
"""Patterns of the line that states the cause, the most telling first: a report over a Union has a line for each member."""


def cause_of(message: str) -> str:
    """The line of a message that states the cause: of a class that cannot be built, what that class has said."""
    if (problem := _PROBLEM.search(message)) is not None:
        return f"{problem[1].rpartition('.')[2]}: {problem[2]}"
    item = _ITEM.search(message)
    return message.strip().splitlines()[0] if item is None else item[1]


def reduced(message: str) -> ConfigError:
    """The short form of a message of jsonargparse: its key path, and the line that states the cause."""
    key = ".".join(dict.fromkeys(_KEY.findall(message)))
    lines = [_KEY.sub("", line).strip(" -:\t") for line in message.splitlines()]
    found = [line for cause in _CAUSES for line in lines if re.search(cause, line, re.I)]
    cause = found[0] if found else lines[0]
    return ConfigError(key, cause, "See: lightrl fit --help")
