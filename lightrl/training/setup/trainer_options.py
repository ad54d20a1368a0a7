"""Options of Lightning's Trainer and callbacks that a module refuses, why, and what to use instead; docs/lightning.md says what works."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from lightning.pytorch import Callback, Trainer
from lightning.pytorch.callbacks import (
    BaseFinetuning,
    BatchSizeFinder,
    GradientAccumulationScheduler,
    LearningRateFinder,
    ModelCheckpoint,
    ModelPruning,
    OnExceptionCheckpoint,
    SpikeDetection,
    StochasticWeightAveraging,
    WeightAveraging,
)

from lightrl.training.setup.precision import FLOAT16, PRECISIONS


@dataclass(frozen=True)
class Refusal:
    """Why something is refused, and what does it here."""

    why: str
    instead: str

    def __str__(self) -> str:
        return f"{self.why}.\nInstead: {self.instead}"


CLIPS = Refusal("the module clips its own gradients, by their norm", "--model.max_grad_norm VALUE")
ARGUMENTS: dict[str, tuple[Callable[[Any], bool], Refusal]] = {
    "accumulate_grad_batches": (
        lambda value: value in (None, 1),
        Refusal(
            "a step takes all rows of its minibatch, in micro-batches, with the same gradient whatever their size",
            "--model.micro_batch_tokens VALUE for less memory; --model.prompts_per_rollout VALUE or --model.batch_size VALUE for more rows",
        ),
    ),
    "gradient_clip_val": (lambda value: value is None, CLIPS),
    "gradient_clip_algorithm": (lambda value: value is None, CLIPS),
    "profiler": (
        lambda value: value != "xla" and type(value).__name__ != "XLAProfiler",
        Refusal("it is for TPUs, on which nothing was tried", "--trainer.profiler simple, or advanced, or pytorch"),
    ),
    "precision": (lambda value: "16" not in str(value).replace("bf16", ""), Refusal(FLOAT16, PRECISIONS)),
    # Lightning limits the training batches by it, so that it comes first
    "overfit_batches": (
        lambda value: not value,
        Refusal(
            "each step draws its own prompts, which Lightning cannot hold fast",
            "--data.train.limit VALUE, so that the same few rows come again and again",
        ),
    ),
    "limit_train_batches": (
        lambda value: value is None or (isinstance(value, float) and value == 1),
        Refusal(
            "the loader counts steps, and each step draws its own prompts",
            "--trainer.max_steps VALUE to end sooner; --data.train.limit VALUE to learn from fewer rows",
        ),
    ),
    "barebones": (
        lambda value: not value,
        Refusal(
            "it forbids the numbers that alarms and checkpoints read",
            "--trainer.logger false --trainer.enable_checkpointing false --trainer.enable_progress_bar false",
        ),
    ),
    "model_registry": (
        lambda value: value is None,
        Refusal("checkpoints are not uploaded", "lightrl export --push owner/name, of lightrl-hub"),
    ),
}  # fmt: skip
"""By argument of the Trainer: which values are accepted, and the refusal of others."""

TYPED_CALLBACKS: dict[type[Callback], Refusal] = {
    StochasticWeightAveraging: Refusal(
        "it averages in places where a module with its own optimizer steps never comes",
        "WeightAveraging or EMAWeightAveraging; model.lr_scheduler for the rate",
    ),
    GradientAccumulationScheduler: ARGUMENTS["accumulate_grad_batches"][1],
    BatchSizeFinder: Refusal(
        "a larger batch_size changes what is learned", "--model.micro_batch_tokens auto, which is chosen for model and device"
    ),
    LearningRateFinder: Refusal(
        "the loss of a rollout is near 0 at every learning rate, and its trial steps would be learned from",
        "runs with several values of --model.optimizer.lr, compared by val/reward",
    ),
    BaseFinetuning: Refusal(
        "it chooses layers before the policy is built", "a LoRA policy, which trains a few weights: --model.policy LoraPolicy"
    ),
    ModelPruning: Refusal("it chooses weights before the policy is built", "pruning of the folder that lightrl export writes"),
    SpikeDetection: Refusal(
        "it reads a loss that training_step returns, and a module with its own optimizer steps returns none", "the alarm gradient of Alarms"
    ),
    OnExceptionCheckpoint: Refusal(
        "a run that fails in the middle of a rollout cannot go on from there with the same numbers",
        "RunCheckpoints, which saves between rollouts; every_rollouts: 1 loses nothing",
    ),
}  # fmt: skip
"""Callbacks that are refused, with those derived from them."""
SAVING_ON_EXCEPTION = TYPED_CALLBACKS[OnExceptionCheckpoint]
SAVING_BY_TIME = Refusal("Lightning never saves by the time in a module with its own optimizer steps", "RunCheckpoints with every_minutes")
SAVING_BY_STEPS = Refusal(
    "it counts optimizer steps, and saves only where the last one of a rollout happens to be a multiple",
    "ModelCheckpoint with every_n_epochs, which counts rollouts",
)
AVERAGING_PIECES = Refusal("it copies gathered weights, and this strategy gives each rank a piece of them", "--trainer.strategy ddp")
TRIAL = Refusal("a trial is one epoch, which is one rollout", "--trainer.fast_dev_run true, or --rollouts VALUE")
VALIDATING = Refusal(
    "one epoch is one rollout, and a rollout has one batch", "--trainer.check_val_every_n_epoch VALUE, which counts rollouts"
)


def refusal_of(argument: str, value: object) -> Refusal | None:
    """The refusal of a value of an argument of the Trainer, in whatever module; None if it is accepted."""
    accepts, refusal = ARGUMENTS.get(argument, (lambda value: True, None))
    return None if accepts(value) else refusal


def refuse_trainer(trainer: Trainer, rollouts: bool, cuts_weights: bool) -> None:
    """Refuse a Trainer with which a run would do something else than its settings say."""
    for key, refusal in _refusals(trainer, rollouts, cuts_weights):
        raise ValueError(f"trainer.{key}: {refusal}")


def callbacks_of(trainer: Trainer) -> list[Callback]:
    """The callbacks of a Trainer, those that Lightning and a module have added included."""
    return trainer.callbacks  # type: ignore[attr-defined, no-any-return]


def _refusals(trainer: Trainer, rollouts: bool, cuts_weights: bool) -> Iterator[tuple[str, Refusal]]:
    trial: int = getattr(trainer, "fast_dev_run", 0)
    for name in ARGUMENTS:
        value = getattr(trainer, "_model_registry" if name == "model_registry" else name)
        # a trial sets this one itself
        if not (trial and name == "limit_train_batches") and (refusal := refusal_of(name, value)) is not None:
            yield name, refusal
    if rollouts and trial > 1:
        yield "fast_dev_run", TRIAL
    interval = getattr(trainer, "val_check_interval", None)  # Lightning has none where one was given in minutes
    if rollouts and trainer.check_val_every_n_epoch is not None and isinstance(interval, (int, float)) and interval != 1:
        yield "val_check_interval", VALIDATING
    for callback in callbacks_of(trainer):
        for refusal in _refusals_of(callback, rollouts, cuts_weights):
            yield f"callbacks: {type(callback).__name__}", refusal


def _refusals_of(callback: Callback, rollouts: bool, cuts_weights: bool) -> Iterator[Refusal]:
    yield from (refusal for base, refusal in TYPED_CALLBACKS.items() if isinstance(callback, base))
    if isinstance(callback, WeightAveraging) and cuts_weights:
        yield AVERAGING_PIECES
    if isinstance(callback, ModelCheckpoint):
        if callback.save_on_exception:
            yield SAVING_ON_EXCEPTION
        if callback._train_time_interval is not None:
            yield SAVING_BY_TIME
        if rollouts and callback._every_n_train_steps > 1:
            yield SAVING_BY_STEPS
