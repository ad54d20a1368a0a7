"""docs/lightning.md has a row for everything of Lightning's that a run may be given, and each row is tried: it works, or is refused."""

from __future__ import annotations

import csv
import inspect
import re
import warnings
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
import yaml
from lightning.fabric.plugins.environments import LightningEnvironment
from lightning.pytorch import Callback, Trainer, callbacks, loggers, profilers
from lightning.pytorch.callbacks import BasePredictionWriter, Checkpoint, LambdaCallback, ModelCheckpoint, TQDMProgressBar
from lightning.pytorch.cli import LightningCLI
from lightning.pytorch.tuner import Tuner
from lightrl_workshop import FewCharacters, quiet_trainer

from lightrl import (
    DigitSorting,
    GroupRelative,
    GroupSampler,
    PolicyOptimization,
    PromptData,
    SupervisedFineTuning,
    TinyPolicy,
    TransformersEngine,
)
from lightrl.callbacks.describe_run import DescribeRun
from lightrl.config.build.run import defaults_beside
from lightrl.config.build.trainer_section import TrainerSection
from lightrl.config.merge.resolve import resolve
from lightrl.config.merge.trainer_keys import check_trainer
from lightrl.config.read.refusals import ConfigError
from lightrl.config.read.settings import Setting, read_words
from lightrl.training.policy_module import PolicyModule
from lightrl.training.setup.trainer_options import AVERAGING_PIECES, refuse_trainer

PAGE = (Path(__file__).parents[2] / "docs" / "lightning.md").read_text()
SECTIONS = {title: body for title, _, body in (part.partition("\n") for part in PAGE.split("\n## "))}
ROWS = {
    (section, row[1]): (row[2], row[3])
    for section, body in SECTIONS.items()
    for row in re.finditer(r"^\| `(\w+)` \| ([\w ]+) \| ?(.*?) ?\|$", body, re.MULTILINE)
}
ARGUMENTS, CALLBACKS, LOGGERS, PROFILERS, TUNER = "Arguments of the Trainer", "Callbacks", "Loggers", "Profilers", "Tuner"


def test_everything_that_is_installed_has_a_row() -> None:
    named = {section: {name for where, name in ROWS if where == section} for section in SECTIONS}
    assert named[ARGUMENTS] == set(inspect.signature(Trainer.__init__).parameters) - {"self"}
    assert named[CALLBACKS] == set(callbacks.__all__)
    assert named[LOGGERS] == set(loggers.__all__) - {"Logger"}
    assert named[PROFILERS] == set(profilers.__all__) - {"Profiler"}
    assert named[TUNER] == {name for name in vars(Tuner) if not name.startswith("_")}


def online(**changes: Any) -> PolicyModule:
    return PolicyOptimization(
        policy=TinyPolicy(hidden=8, layers=1, heads=2, **changes),
        algorithm=GroupRelative(sampler=GroupSampler(group_size=2), minibatches=2),
        rewards={"short": FewCharacters()},
        engine=TransformersEngine(max_new_tokens=2),
        prompts_per_rollout=2,
        micro_batch_tokens=None,
        optimizer=lambda p: torch.optim.AdamW(p, lr=1e-2),
    )


def given_rows() -> PolicyModule:
    return SupervisedFineTuning(policy=TinyPolicy(hidden=8, layers=1, heads=2), batch_size=4, micro_batch_tokens=None)


class Recorder(Callback):
    """Keeps what a run did."""

    def __init__(self) -> None:
        self.validated: list[int] = []
        self.weights: list[torch.Tensor] = []
        self.inference: list[bool] = []
        self.ended = False

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, *arguments: object) -> None:
        self.weights.append(torch.cat([p.detach().flatten().clone() for p in pl_module.policy.parameters()]))

    def on_validation_end(self, trainer: Trainer, pl_module: Any) -> None:
        self.validated.append(trainer.current_epoch)

    def on_validation_batch_start(self, *arguments: object) -> None:
        self.inference.append(torch.is_inference_mode_enabled())

    def on_train_end(self, *arguments: object) -> None:
        self.ended = True


class Fit:
    """A run in a folder of its own, and what it did."""

    def __init__(self, folder: Path, *given: Callback, module: PolicyModule | None = None, validation: int = 4, **settings: Any) -> None:
        self.seen, self.module, self.folder = Recorder(), module or online(), folder
        self.data = PromptData(train=DigitSorting(examples=16), validation_size=validation, validation_batch_size=2)
        usual = {"max_epochs": 2, "num_sanity_val_steps": 0, "default_root_dir": folder, "log_every_n_steps": 1}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.trainer = quiet_trainer(callbacks=[*given, self.seen], **{**usual, **settings})
            self.trainer.fit(self.module, datamodule=self.data)

    @property
    def logged(self) -> set[str]:
        with (self.folder / "lightning_logs" / "version_0" / "metrics.csv").open() as file:
            return set(next(csv.reader(file)))


class Try:
    """What the row of a name does."""

    def __init__(self, tmp_path: Path, all_at_once: Callable[[], Fit]) -> None:
        self.tmp_path, self._all_at_once = tmp_path, all_at_once

    @property
    def at_once(self) -> Fit:
        """One run with everything that does not get in the way of anything else."""
        return self._all_at_once()

    def fit(self, *given: Callback, **settings: Any) -> Fit:
        return Fit(self.tmp_path, *given, **settings)

    def refuses(self, words: str, *given: Callback, module: Callable[[], PolicyModule] = online, **settings: Any) -> None:
        subject = module()
        trainer = quiet_trainer(callbacks=list(given), default_root_dir=self.tmp_path, **{"max_epochs": 1, **settings})
        with pytest.raises(ValueError) as refused:
            trainer.fit(subject, datamodule=PromptData(train=DigitSorting(examples=16)))
        said(str(refused.value), words)
        assert not hasattr(subject, "policy"), "it was built before the refusal"


def said(message: str, row: str) -> None:
    plain = " ".join(message.split()).partition(": ")[2]
    assert row.replace("`", "") in plain


@pytest.fixture(scope="module")
def all_at_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Fit]:
    @cache
    def run() -> Fit:
        folder = tmp_path_factory.mktemp("at_once")
        return Fit(
            folder,
            LambdaCallback(on_train_end=lambda trainer, module: (folder / "lambda").touch()),
            callbacks.DeviceStatsMonitor(cpu_stats=True),
            callbacks.LearningRateMonitor("step"),
            callbacks.ThroughputMonitor(batch_size_fn=lambda batch: 4, window_size=2),
            callbacks.Timer(timedelta(hours=1)),
            ModelCheckpoint(monitor="reward", mode="max", save_top_k=-1, save_last=True, filename="{epoch}", save_on_train_epoch_end=True),
            max_epochs=3, min_epochs=1, min_steps=1, accelerator="cpu", strategy="auto", devices=1, num_nodes=1, precision="32-true",
            logger=loggers.CSVLogger(folder), benchmark=False, use_distributed_sampler=False, sync_batchnorm=True,
            reload_dataloaders_every_n_epochs=1, limit_val_batches=1, check_val_every_n_epoch=2, plugins=[LightningEnvironment()],
            profiler=profilers.SimpleProfiler(folder, "simple"), detect_anomaly=True, num_sanity_val_steps=1, deterministic="warn",
        )  # fmt: skip

    return run


# the Trainer's arguments


def as_it_is(of: Try) -> None:
    assert of.at_once.seen.ended
    assert of.at_once.trainer.current_epoch == 3
    assert of.at_once.trainer.global_step == 6


def precision(of: Try) -> None:
    assert of.fit(max_epochs=1, precision="bf16-mixed").seen.ended
    assert Fit(of.tmp_path, max_epochs=1, precision="64-true", module=online(dtype="float64")).seen.ended
    of.refuses("policy gradients are too small for float16", precision="16-true")


def logger(of: Try) -> None:
    assert {"reward", "grad_norm", "val/reward"} <= of.at_once.logged


def callbacks_of_a_run(of: Try) -> None:
    mine = TQDMProgressBar()
    beside = defaults_beside([mine], bar=True, checkpoints=True)
    assert not any(isinstance(callback, callbacks.ProgressBar) for callback in beside)


def fast_dev_run(of: Try) -> None:
    done = of.fit(fast_dev_run=True, logger=True)
    assert (done.trainer.current_epoch, len(done.seen.validated), list(of.tmp_path.iterdir())) == (1, 2, [])
    of.refuses("a trial is one epoch, which is one rollout", fast_dev_run=2)


def max_steps(of: Try) -> None:
    assert of.fit(max_steps=3, max_epochs=-1).trainer.global_step == 4


def max_time(of: Try) -> None:
    assert of.fit(max_time=timedelta(seconds=0), max_epochs=-1).trainer.current_epoch <= 1


def min_epochs(of: Try) -> None:
    stop = callbacks.EarlyStopping("reward", patience=0, min_delta=1e9, mode="max", check_on_train_epoch_end=True)
    assert of.fit(stop, min_epochs=4, max_epochs=9).trainer.current_epoch == 4


def min_steps(of: Try) -> None:
    stop = callbacks.EarlyStopping("reward", patience=0, min_delta=1e9, mode="max", check_on_train_epoch_end=True)
    assert of.fit(stop, min_steps=8, max_epochs=9).trainer.global_step == 8


def limit_val_batches(of: Try) -> None:
    batches = []
    of.fit(LambdaCallback(on_validation_batch_end=lambda *a: batches.append(1)), max_epochs=1, limit_val_batches=1)
    # before the first rollout and after it
    assert len(batches) == 2


def limit_of(verb: str) -> Callable[[Try], None]:
    def limited(of: Try) -> None:
        batches: list[int] = []
        count = LambdaCallback(**{f"on_{verb}_batch_end": lambda *a: batches.append(1)})
        trainer = quiet_trainer(callbacks=[count], **{f"limit_{verb}_batches": 1})
        getattr(trainer, verb)(
            online(), datamodule=PromptData(DigitSorting(examples=8), test=DigitSorting(examples=8, seed=1), validation_batch_size=2)
        )
        assert len(batches) == 1

    return limited


def val_check_interval(of: Try) -> None:
    done = of.fit(max_epochs=4, val_check_interval=2, check_val_every_n_epoch=None)
    assert done.seen.validated == [0, 1, 3]
    timed = Fit(of.tmp_path, max_epochs=2, val_check_interval=timedelta(0), check_val_every_n_epoch=None)
    assert timed.seen.validated == [0, 0, 1]
    of.refuses("one epoch is one rollout", val_check_interval=2)
    of.refuses("one epoch is one rollout", val_check_interval=0.5)


def check_val_every_n_epoch(of: Try) -> None:
    # before the run, of its sanity check, and after every second rollout
    assert of.at_once.seen.validated == [0, 0, 1]


def enable_checkpointing(of: Try) -> None:
    assert any(isinstance(callback, Checkpoint) for callback in defaults_beside([], bar=False, checkpoints=True))
    assert not any(isinstance(callback, Checkpoint) for callback in defaults_beside([], bar=False, checkpoints=False))


def enable_progress_bar(of: Try) -> None:
    assert not any(isinstance(callback, callbacks.ProgressBar) for callback in defaults_beside([], bar=False, checkpoints=False))


def inference_mode(of: Try) -> None:
    for wanted in (True, False):
        seen = Recorder()
        trainer = quiet_trainer(callbacks=[seen], inference_mode=wanted, limit_val_batches=1)
        trainer.validate(online(), datamodule=PromptData(DigitSorting(examples=8), validation_size=1), verbose=False)
        assert seen.inference == [wanted]


def profiler(of: Try) -> None:
    assert "training_step" in next(of.at_once.folder.glob("fit-simple*")).read_text()


def default_root_dir(of: Try) -> None:
    assert of.at_once.trainer.default_root_dir == str(of.at_once.folder)


def enable_autolog_hparams(of: Try) -> None:
    for wanted, file in ((True, True), (False, False)):
        folder = of.tmp_path / str(wanted)
        logger, describe = loggers.CSVLogger(folder), DescribeRun("seed: 0", None)
        Fit(of.tmp_path, describe, max_epochs=1, logger=logger, enable_autolog_hparams=wanted)
        assert any("seed" in path.read_text() for path in folder.rglob("hparams.yaml")) == file


# callbacks


def derived_finetuning(of: Try) -> None:
    class Freeze(callbacks.BaseFinetuning):
        def freeze_before_training(self, pl_module: pl.LightningModule) -> None: ...

        def finetune_function(self, *arguments: object) -> None: ...

    of.refuses(ROWS[CALLBACKS, "BaseFinetuning"][1], Freeze())


def prediction_writer(of: Try) -> None:
    class Writer(BasePredictionWriter):
        rows = 0

        def write_on_batch_end(self, trainer: Any, module: Any, prediction: Any, *arguments: object) -> None:
            self.rows += len(prediction)

    writer = Writer("batch")
    quiet_trainer(callbacks=[writer]).predict(
        online(), datamodule=PromptData(DigitSorting(examples=8), test=DigitSorting(examples=3, seed=1))
    )
    assert writer.rows == 3


def own_checkpoint(of: Try) -> None:
    beside = defaults_beside([ModelCheckpoint()], bar=False, checkpoints=True)
    assert "RunCheckpoints" not in {type(callback).__name__ for callback in beside}


def early_stopping(of: Try) -> None:
    stop = callbacks.EarlyStopping("val/reward", patience=1, min_delta=1e9, mode="max")
    assert of.fit(stop, max_epochs=9).trainer.current_epoch < 9


def averaging(of: Try) -> None:
    done = of.fit(callbacks.WeightAveraging(), max_epochs=3)
    [after] = [torch.cat([p.detach().flatten() for p in done.module.policy.parameters()])]
    torch.testing.assert_close(after, torch.stack(done.seen.weights).mean(0))


def moving_average(of: Try) -> None:
    saved = of.tmp_path / "average.ckpt"
    save = LambdaCallback(on_train_epoch_end=lambda trainer, module: trainer.save_checkpoint(saved))
    done = of.fit(callbacks.EMAWeightAveraging(decay=0.75), save, max_epochs=2)
    first, second = done.seen.weights
    expected = 0.75 * first + 0.25 * second
    torch.testing.assert_close(torch.cat([p.detach().flatten() for p in done.module.policy.parameters()]), expected)
    state = torch.load(saved, weights_only=False)["state_dict"]
    names = [name for name, _ in done.module.named_parameters() if name.startswith("policy.")]
    torch.testing.assert_close(torch.cat([state[name].flatten() for name in names]), expected)
    with pytest.raises(ValueError, match=AVERAGING_PIECES.why):
        refuse_trainer(quiet_trainer(callbacks=[callbacks.EMAWeightAveraging()]), rollouts=True, cuts_weights=True)


def model_checkpoint(of: Try) -> None:
    saved = {path.name for path in of.at_once.folder.glob("lightning_logs/*/checkpoints/*")}
    assert saved == {"epoch=0.ckpt", "epoch=1.ckpt", "epoch=2.ckpt", "last.ckpt"}
    of.refuses("it counts optimizer steps", ModelCheckpoint(every_n_train_steps=3))
    of.refuses("Lightning never saves by the time", ModelCheckpoint(train_time_interval=timedelta(minutes=1)))
    of.refuses("cannot go on from there with the same numbers", ModelCheckpoint(save_on_exception=True))
    Fit(
        of.tmp_path, ModelCheckpoint(of.tmp_path, every_n_train_steps=2, save_top_k=-1, filename="{step}"), module=given_rows(), max_steps=4
    )
    assert {path.name for path in of.tmp_path.glob("*.ckpt")} == {"step=2.ckpt", "step=4.ckpt"}


def summary(of: Try) -> None:
    assert of.fit(callbacks.ModelSummary(), callbacks.RichModelSummary(), max_epochs=1).seen.ended


def bar(name: str) -> Callable[[Try], None]:
    def shown(of: Try) -> None:
        assert of.fit(getattr(callbacks, name)(), max_epochs=1).seen.ended

    return shown


# loggers and profilers


def logs(*names: str) -> Callable[[Try], None]:
    def found(of: Try) -> None:
        assert set(names) <= of.at_once.logged

    return found


def tensorboard(of: Try) -> None:
    of.fit(max_epochs=1, logger=loggers.TensorBoardLogger(of.tmp_path, name="board"))
    assert list(of.tmp_path.glob("board/version_0/events*"))


def lacks_package(name: str) -> Callable[[Try], None]:
    def refused(of: Try) -> None:
        with pytest.raises(ConfigError, match=r"pip install|no logger is named"):
            TrainerSection("fit", resolve("fit", read_words(["--config", "sft_sort", "--trainer.logger", name]))).build(
                lambda arguments: []
            )

    return refused


def advanced(of: Try) -> None:
    of.fit(max_epochs=1, profiler=profilers.AdvancedProfiler(of.tmp_path, "advanced"))
    assert "training_step" in next(of.tmp_path.glob("fit-advanced*")).read_text()


def traces(of: Try) -> None:
    kept = profilers.PyTorchProfiler(of.tmp_path, "torch", export_to_chrome=False, row_limit=-1)
    of.fit(max_epochs=5, validation=0, profiler=kept)
    assert "aten::" in next(of.tmp_path.glob("fit-torch*")).read_text()


def tuned(method: str) -> Callable[[Try], None]:
    def refused(of: Try) -> None:
        with pytest.raises(ValueError) as error:
            getattr(Tuner(quiet_trainer(max_epochs=1)), method)(given_rows(), datamodule=PromptData(DigitSorting(examples=8)))
        said(str(error.value), ROWS[TUNER, method][1])

    return refused


REFUSED: dict[tuple[str, str], dict[str, Any]] = {
    (ARGUMENTS, "limit_train_batches"): {"limit_train_batches": 1},
    (ARGUMENTS, "overfit_batches"): {"overfit_batches": 1},
    (ARGUMENTS, "accumulate_grad_batches"): {"accumulate_grad_batches": 2},
    (ARGUMENTS, "gradient_clip_val"): {"gradient_clip_val": 0.5},
    (ARGUMENTS, "gradient_clip_algorithm"): {"gradient_clip_algorithm": "norm"},
    (ARGUMENTS, "barebones"): {
        "barebones": True,
        **dict.fromkeys(("logger", *(f"enable_{it}" for it in ("checkpointing", "progress_bar", "model_summary")))),
    },
    (ARGUMENTS, "model_registry"): {"model_registry": "mine"},
    (PROFILERS, "XLAProfiler"): {"profiler": "xla"},
}
"""Arguments that are refused, whatever the module."""
REFUSED_CALLBACKS: dict[str, Callable[[Path], Callback]] = {
    "BackboneFinetuning": lambda folder: callbacks.BackboneFinetuning(),
    "BatchSizeFinder": lambda folder: callbacks.BatchSizeFinder(),
    "GradientAccumulationScheduler": lambda folder: callbacks.GradientAccumulationScheduler({0: 2}),
    "LearningRateFinder": lambda folder: callbacks.LearningRateFinder(),
    "ModelPruning": lambda folder: callbacks.ModelPruning("l1_unstructured"),
    "OnExceptionCheckpoint": lambda folder: callbacks.OnExceptionCheckpoint(folder),
    "SpikeDetection": lambda folder: callbacks.SpikeDetection(),
    "StochasticWeightAveraging": lambda folder: callbacks.StochasticWeightAveraging(1e-2),
}
MARKS = {"PyTorchProfiler": pytest.mark.thorough}
"""Of the rows that take seconds."""
WORKS: dict[tuple[str, str], Callable[[Try], None]] = {
    **{
        (ARGUMENTS, name): as_it_is
        for name in (
            "accelerator",
            "strategy",
            "devices",
            "num_nodes",
            "max_epochs",
            "log_every_n_steps",
            "enable_model_summary",
            "deterministic",
            "benchmark",
            "use_distributed_sampler",
            "detect_anomaly",
            "plugins",
            "sync_batchnorm",
            "reload_dataloaders_every_n_epochs",
        )
    },
    (ARGUMENTS, "precision"): precision,
    (ARGUMENTS, "logger"): logger,
    (ARGUMENTS, "callbacks"): callbacks_of_a_run,
    (ARGUMENTS, "fast_dev_run"): fast_dev_run,
    (ARGUMENTS, "min_epochs"): min_epochs,
    (ARGUMENTS, "max_steps"): max_steps,
    (ARGUMENTS, "min_steps"): min_steps,
    (ARGUMENTS, "max_time"): max_time,
    (ARGUMENTS, "limit_val_batches"): limit_val_batches,
    (ARGUMENTS, "limit_test_batches"): limit_of("test"),
    (ARGUMENTS, "limit_predict_batches"): limit_of("predict"),
    (ARGUMENTS, "val_check_interval"): val_check_interval,
    (ARGUMENTS, "check_val_every_n_epoch"): check_val_every_n_epoch,
    (ARGUMENTS, "num_sanity_val_steps"): check_val_every_n_epoch,
    (ARGUMENTS, "enable_checkpointing"): enable_checkpointing,
    (ARGUMENTS, "enable_progress_bar"): enable_progress_bar,
    (ARGUMENTS, "inference_mode"): inference_mode,
    (ARGUMENTS, "profiler"): profiler,
    (ARGUMENTS, "default_root_dir"): default_root_dir,
    (ARGUMENTS, "enable_autolog_hparams"): enable_autolog_hparams,
    (CALLBACKS, "BasePredictionWriter"): prediction_writer,
    (CALLBACKS, "Callback"): as_it_is,
    (CALLBACKS, "Checkpoint"): own_checkpoint,
    (CALLBACKS, "DeviceStatsMonitor"): logs("DeviceStatsMonitor.on_train_batch_end/cpu_percent"),
    (CALLBACKS, "EarlyStopping"): early_stopping,
    (CALLBACKS, "EMAWeightAveraging"): moving_average,
    (CALLBACKS, "LambdaCallback"): lambda of: (of.at_once.folder / "lambda").stat(),  # type: ignore[dict-item]
    (CALLBACKS, "LearningRateMonitor"): logs("lr-AdamW"),
    (CALLBACKS, "ModelCheckpoint"): model_checkpoint,
    (CALLBACKS, "ModelSummary"): summary,
    (CALLBACKS, "ProgressBar"): callbacks_of_a_run,
    (CALLBACKS, "RichModelSummary"): summary,
    (CALLBACKS, "RichProgressBar"): bar("RichProgressBar"),
    (CALLBACKS, "ThroughputMonitor"): logs("train/batches", "train/samples"),
    (CALLBACKS, "Timer"): max_time,
    (CALLBACKS, "TQDMProgressBar"): bar("TQDMProgressBar"),
    (CALLBACKS, "WeightAveraging"): averaging,
    (LOGGERS, "TensorBoardLogger"): tensorboard,
    (LOGGERS, "CSVLogger"): logger,
    **{(LOGGERS, name): lacks_package(name) for name in ("WandbLogger", "MLFlowLogger", "CometLogger", "LitLogger")},
    (PROFILERS, "SimpleProfiler"): profiler,
    (PROFILERS, "AdvancedProfiler"): advanced,
    (PROFILERS, "PyTorchProfiler"): traces,
    (PROFILERS, "PassThroughProfiler"): max_time,
}
"""By section and name, the test of what works."""


@pytest.mark.parametrize(("section", "name"), [pytest.param(*row, id=f"{row[1]} ({row[0]})", marks=MARKS.get(row[1], ())) for row in ROWS])
def test_every_row(section: str, name: str, tmp_path: Path, all_at_once: Callable[[], Fit]) -> None:
    verdict, text = ROWS[section, name]
    of = Try(tmp_path, all_at_once)
    if verdict != "refused":
        WORKS[section, name](of)
    elif section == TUNER:
        tuned(name)(of)
    elif name == "BaseFinetuning":
        derived_finetuning(of)
    elif section == CALLBACKS:
        for module in (online, given_rows):
            of.refuses(text, REFUSED_CALLBACKS[name](tmp_path), module=module)
    else:
        changes = REFUSED[section, name]
        with pytest.raises(ConfigError) as refused:
            check_trainer({"trainer": changes}, Setting((), {}, "run.yaml"), "fit")
        said(str(refused.value), text)
        if section == ARGUMENTS:
            for module in (online, given_rows):
                of.refuses(text, module=module, **changes)


def test_a_yaml_of_lightning_cli_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["script.py"])
    config = {
        "trainer": {"max_epochs": 1, "accelerator": "cpu", "logger": False, "enable_checkpointing": False, "enable_progress_bar": False},
        "model": {
            "policy": {"class_path": "lightrl.TinyPolicy", "init_args": {"hidden": 8, "layers": 1, "heads": 2}},
            "algorithm": {
                "class_path": "lightrl.GroupRelative",
                "init_args": {"sampler": {"class_path": "lightrl.GroupSampler", "init_args": {"group_size": 2}}},
            },
            "rewards": {"exact": {"class_path": "lightrl.ExactMatch"}},
            "engine": {"class_path": "lightrl.TransformersEngine", "init_args": {"max_new_tokens": 2}},
            "prompts_per_rollout": 2,
        },
        "data": {"train": {"class_path": "lightrl.DigitSorting", "init_args": {"examples": 8}}},
    }
    path = tmp_path / "plain.yaml"
    path.write_text(yaml.safe_dump(config))
    done = LightningCLI(PolicyOptimization, PromptData, args=["fit", "--config", str(path)], save_config_callback=None)
    assert done.trainer.current_epoch == 1
