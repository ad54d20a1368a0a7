"""A run: model, data and Trainer as one config describes them, and the verb that the Trainer carries out with them."""

from __future__ import annotations

import faulthandler
import logging
import sys
import warnings
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import yaml
from lightning.pytorch import Callback
from lightning.pytorch.callbacks import Checkpoint, ProgressBar
from lightning.pytorch.loggers import Logger, TensorBoardLogger
from lightning.pytorch.trainer.states import TrainerFn

from lightrl.callbacks.describe_run import DescribeRun
from lightrl.callbacks.no_update import NoUpdate
from lightrl.callbacks.preemption import Preemption, PreemptionCheckpoint
from lightrl.callbacks.resume_report import ResumeReport
from lightrl.callbacks.rollout_progress import RolloutProgress
from lightrl.callbacks.run_checkpoints import RunCheckpoints
from lightrl.callbacks.run_folder import SaveResolvedConfig, WriteCompletions
from lightrl.config.build.builder import Builder
from lightrl.config.build.trainer_section import TrainerSection
from lightrl.config.build.whole_config import config_yaml
from lightrl.config.merge.resolve import Resolved
from lightrl.config.read.refusals import ConfigError
from lightrl.strategies.checkpoint_weights import refuse_shapes
from lightrl.strategies.disk import below, refuse_closed
from lightrl.training.policy_module import default_callbacks
from lightrl.workers.process_ends import end_rank_with_parent
from lightrl.workers.waiting import waiting

EVALUATED = {"validate": ("validation",), "test": ("test",), "predict": ("test", "validation")}
"""The prompts that a verb goes through; there must be some."""


class Run:
    """Everything that a config describes, built and ready."""

    def __init__(self, verb: str, resolved: Resolved) -> None:
        """Build all of it for fit, validate, test or predict."""
        end_rank_with_parent()
        if sys.stderr is not None and sys.stderr is sys.__stderr__:
            # a crash in native code says where it was
            faulthandler.enable()
        quiet_lightning()
        self.verb, self._resolved, self._builder = verb, resolved, Builder()
        self._section = TrainerSection(verb, resolved)
        self._section.prepare()
        self.text = config_yaml(resolved, self._section)
        """The config with every default, as YAML."""
        self.model = self._builder.build(resolved.model, "model")
        with waiting("reading the data"):
            self.data = self._builder.build(resolved.data, "data")
        with self.refusals():
            self.trainer = self._section.build(self._callbacks)

    def start(self) -> None:
        """Carry out the verb; a ConfigError if something is refused before the first step."""
        arguments = self._section.verb_arguments
        with self.refusals():
            if self.verb == "fit":
                continue_in_folder_of(arguments["ckpt_path"], self.trainer.loggers)
            else:
                self._check_prompts()
            refuse_closed(Path(self.trainer.default_root_dir))
            with below(Path(self.trainer.default_root_dir)):
                getattr(self.trainer, self.verb)(model=self.model, datamodule=self.data, **arguments)

    def prepare(self) -> None:
        """Go as far as training goes before it reads the policy's weights, so that the same things are refused.

        Raises:
            ValueError: model, data and Trainer do not fit each other.
        """
        refuse_closed(Path(self.trainer.default_root_dir))
        trainer, self.model.trainer = self.trainer, self.trainer
        trainer.state.fn = TrainerFn.FITTING
        trainer.strategy.connect(self.model)
        trainer._data_connector.attach_data(self.model, datamodule=self.data)
        self.model.configure_callbacks()
        with waiting("reading the policy and measuring the prompts"):
            self.model.attach(self.model.learner.source.build_lazy())
        if (checkpoint := self._section.verb_arguments["ckpt_path"]) is not None and Path(checkpoint).is_file():
            # what belongs to the policy, such as a critic, is not built here
            refuse_shapes(Path(checkpoint), self.model, among="policy.")
        # Lightning compares its limits and intervals with the numbers of batches
        trainer.fit_loop.setup_data()
        trainer.fit_loop.epoch_loop.val_loop.setup_data()

    def refusals(self) -> AbstractContextManager[None]:
        """Within, a refusal becomes a short error with its key; for callers that ask model and data something themselves."""
        return self._builder.refusals()

    def _callbacks(self, trainer: dict[str, Any]) -> list[Callback]:
        """The callbacks beside those of the config."""
        given: list[Callback] = trainer["callbacks"]
        bar, checkpoints = trainer["enable_progress_bar"] is not False, trainer["enable_checkpointing"] is not False
        callbacks = defaults_beside(given, bar=bar, checkpoints=checkpoints)
        for callback in [*given, *callbacks]:
            if isinstance(callback, ResumeReport):
                callback.config = yaml.safe_load(self.text)
        model = self._resolved.model
        if self.verb == "fit":
            callbacks.append(DescribeRun(self.text, model.value("algorithm") if "algorithm" in model.takes else None))
        if self.verb == "predict":
            callbacks.append(WriteCompletions())
        return callbacks if trainer["fast_dev_run"] else [*callbacks, SaveResolvedConfig(self.text)]

    def _check_prompts(self) -> None:
        names = EVALUATED[self.verb]
        sizes = self.data.sizes() if hasattr(self.data, "sizes") else {}
        if sizes and not any(sizes[name] for name in names):
            example = f"Type for example: --data.{names[0]} JsonLines --data.{names[0]}.path FILE.jsonl"
            raise ConfigError(f"data.{names[0]}", f"there are no {' or '.join(names)} prompts to {self.verb}.", example)


def defaults_beside(given: list[Callback], bar: bool, checkpoints: bool) -> list[Callback]:
    """The default callbacks that go with those of a config: none of a class that it names itself, one progress bar or none."""
    own: list[type[Callback]] = [NoUpdate, *([PreemptionCheckpoint] if checkpoints else [Preemption])]
    if checkpoints and not any(isinstance(callback, Checkpoint) for callback in given):
        own.append(RunCheckpoints)
    if bar and not any(isinstance(callback, ProgressBar) for callback in given):
        own.insert(0, RolloutProgress)
    return [*default_callbacks(given), *(cls() for cls in own if cls not in {type(callback) for callback in given})]


def continue_in_folder_of(checkpoint: str | None, loggers: list[Logger]) -> None:
    """Give loggers whose version is not chosen the version of the checkpoint, so that curves and checkpoints stay together.

    From an earlier checkpoint a run branches off: it gets a version of its own, and what came later stays as it is.
    """
    if checkpoint is None:
        return
    path = Path(checkpoint).expanduser().resolve()
    versions = path.parent.parent
    if path.parent.name != "checkpoints" or any(p.lstat().st_mtime > path.lstat().st_mtime for p in path.parent.glob("*.ckpt")):
        return
    for logger in loggers:
        if hasattr(logger, "continue_in"):
            logger.continue_in(versions)
        free = isinstance(logger, TensorBoardLogger) and logger._version is None
        if free and Path(logger.root_dir or "").resolve() == versions.parent and versions.name.startswith("version_"):
            logger._version = versions.name  # type: ignore[attr-defined]


def quiet_lightning() -> None:
    """Filter the logs of Lightning and DeepSpeed; their warnings about the run itself stay."""
    for name in ("lightning.pytorch.utilities.rank_zero", "lightning.fabric.utilities.rank_zero"):
        # recommendations of other products
        logging.getLogger(name).addFilter(lambda record: "Tip: For seamless" not in record.getMessage())
    # DeepSpeed says when its checkpoint is exported that it has found no GPU
    logging.getLogger("DeepSpeed").addFilter(lambda record: "Setting accelerator to CPU" not in record.getMessage())
    for message in (
        # raised by Lightning's own use of torch, and by DeepSpeed's, at every call
        r".*isinstance\(treespec, LeafSpec\).*",
        r".*`torch\.distributed\.(all_gather_into_tensor|reduce_scatter_tensor)` is deprecated.*",
        # lightrl has already reduced its numbers over the ranks, each in its own way
        r".*It is recommended to use `self\.log\(.*sync_dist=True.*",
        # said at every validation: val/avg@8 is called val/avg8 there
        r".*MLFlow only allows .* special characters in metric name.*",
    ):
        warnings.filterwarnings("ignore", message=message)
