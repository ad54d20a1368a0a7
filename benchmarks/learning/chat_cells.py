"""One run of benchmarks/learning/chat_models.py: a task, an online algorithm and a seed, as a JSON value."""

from __future__ import annotations

import logging
import platform
import time
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer, seed_everything

from benchmarks.learning.chat_algorithms import GROUP, optimizer
from benchmarks.learning.chat_tasks import ChatTask, source_of
from lightrl import PolicyOptimization, PolicySource, PromptData, TransformersEngine
from lightrl.algorithms.algorithm import Algorithm
from lightrl.training.evaluating.evaluator import Evaluation
from lightrl.training.policy_module import NoDefaultCallbacks

PROMPTS, ROLLOUTS, EVALUATE_EVERY, SAMPLES = 6, 10, 5, 4
"""Prompts of a rollout, rollouts, rollouts from one evaluation to the next, and completions of each held-out prompt."""
RIGHT_ABOVE = 0.98
ACCURACY, IN_FOUR = f"val/avg@{SAMPLES}", f"val/pass@{SAMPLES}"
KEPT = (
    "reward",
    "completions/mean_length",
    "completions/clipped_ratio",
    "clip_ratio/region",
    "ratio/max_deviation",
    "advantages/std",
    "grad_norm",
    "entropy_estimate",
    "explained_variance",
    "sampling/prompts",
    "environment/tools/add/calls",
    "environment/tools/add/errors",
)
"""Numbers of each rollout, by the name they are logged under."""
PACKAGES = ("lightrl-core", "torch", "transformers", "lightning", "reasoning-gym")

Cell = dict[str, Any]
"""`task`, `algorithm`, `seed`, `before`, `after`, and what the page shows beside them."""


class Notes(Callback):
    """Keeps the numbers of rollouts and evaluations, and prints some of what was said."""

    def __init__(self) -> None:
        self.rollouts: list[dict[str, float]] = []
        self.accuracy: list[tuple[int, float]] = []
        self.in_four: list[float] = []

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *arguments: object) -> None:
        """Called after each rollout."""
        known: Any = pl_module.numbers
        self.rollouts.append({name: round(float(known[name]), 5) for name in KEPT if name in known})
        if "reward" in known:
            print(f"  rollout {len(self.rollouts):>2}: reward {float(known['reward']):.3f}", flush=True)  # noqa: T201

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Called after each evaluation, the first of which comes before the first rollout."""
        self.accuracy.append((len(self.rollouts), round(float(trainer.callback_metrics[ACCURACY]), 4)))
        self.in_four.append(round(float(trainer.callback_metrics[IN_FOUR]), 4))
        samples: Any = pl_module.collector.samples
        rows = list(zip(samples.prompts, samples.completions, strict=True))
        said = "".join(f"\n    {prompt.id} -> {completion!r}" for prompt, completion in rows[:: max(1, len(rows) // 3)][:3])
        print(f"  held out after {len(self.rollouts)} rollouts: {self.accuracy[-1][1]:.3f}{said}", flush=True)  # noqa: T201


def quiet_trainer(callbacks: list[Callback], **limits: Any) -> Trainer:
    """A trainer on the CPU that writes nothing."""
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning")
    return Trainer(
        accelerator="cpu",
        devices=1,
        num_sanity_val_steps=0,
        callbacks=[*callbacks, NoDefaultCallbacks()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **limits,
    )


def online(task: ChatTask, algorithm: Algorithm, seed: int, model: PolicySource, rollouts: int = ROLLOUTS) -> Cell:
    """Train by one algorithm.

    Args:
        task: what is asked.
        algorithm: with groups of `GROUP` completions.
        seed: of data order and sampling.
        model: where the run starts.
        rollouts: how many.
    """
    seed_everything(seed, verbose=False)
    notes, started = Notes(), time.perf_counter()
    module = PolicyOptimization(
        policy=source_of(model, task.template),
        algorithm=algorithm,
        rewards={"right": task.reward},
        engine=TransformersEngine(max_new_tokens=task.tokens, seed=seed),
        environment=task.environment,
        prompts_per_rollout=PROMPTS,
        micro_batch_tokens=1024,
        optimizer=optimizer,
        evaluation=Evaluation(samples=SAMPLES, right_above=RIGHT_ABOVE),
        seed=seed,
    )
    every = min(EVALUATE_EVERY, rollouts)
    trainer = quiet_trainer([notes], max_epochs=rollouts, check_val_every_n_epoch=every)
    trainer.fit(module, datamodule=PromptData(train=task.train, validation=task.held_out, seed=seed))
    drawn = [numbers.get("sampling/prompts", PROMPTS) for numbers in notes.rollouts]
    return {
        "before": notes.accuracy[0][1],
        "after": notes.accuracy[-1][1],
        "accuracy": notes.accuracy,
        "in_four": notes.in_four,
        "rollouts": notes.rollouts,
        "completions": int(sum(drawn) * GROUP),
        "steps": trainer.global_step,
        "parameters": sum(weights.numel() for weights in module.policy.parameters()),
        "seconds": round(time.perf_counter() - started, 1),
    }


def machine() -> Cell:
    """The processor and the versions of this run."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    versions = {package: version(package) for package in PACKAGES} | {"python": platform.python_version()}
    return {"processor": names[0] if names else platform.machine(), "threads": torch.get_num_threads(), "versions": versions}
