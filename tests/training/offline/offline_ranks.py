"""Modules that learn from given completions, trained in one process or in two that share every step; started by the tests, also as
its own second process.

    python offline_ranks.py STRATEGY FOLDER

For each run FOLDER/NAME has what was trained, and FOLDER/NAME.json what was logged at each step and at the end.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer
from lightrl_preference import AOT, BCO, DPO, KTO, AOTUnpaired, MixedObjective, Unpaired
from lightrl_workshop import quiet_trainer
from torchmetrics.classification import BinaryAUROC
from torchmetrics.text import CHRFScore

from lightrl import (
    DigitSorting,
    Objective,
    PreferenceOptimization,
    Prompt,
    PromptData,
    PromptSource,
    RewardModeling,
    SortedPairs,
    SupervisedFineTuning,
    TinyPolicy,
    TransformersEngine,
)
from lightrl.callbacks.export_policy import ExportPolicy, ExportRewardModel
from lightrl.training.evaluating.evaluator import Evaluation

RUNS = ("sft", "dpo", "aot", "kto", "bco", "reward_model")


class Ranked(PromptSource):
    """Thirty questions with two to four answers of several lengths; every fifth has answers of one rank."""

    size = 30

    def prompt(self, index: int) -> Prompt:
        answers = [str(index) * (n + 1 + index % 3) for n in range(2 + index % 3)]
        ranks = [1 if index % 5 == 0 else n // 2 if len(answers) > 2 else n for n in range(len(answers))]
        return Prompt(id=str(index), text=f"{index}?", columns={"completions": answers, "ranks": ranks})


class Logged(Callback):
    """Keeps what the run logged."""

    def __init__(self, file: Path) -> None:
        self.file, self.numbers = file, list[dict[str, float]]()

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, *_: Any) -> None:
        self.numbers.append(self._now(trainer))

    def on_train_end(self, trainer: Trainer, pl_module: Any) -> None:
        if trainer.is_global_zero:
            self.file.write_text(json.dumps([*self.numbers, self._now(trainer)]))

    @staticmethod
    def _now(trainer: Trainer) -> dict[str, float]:
        return {name: float(value) for name, value in trainer.callback_metrics.items() if not name.startswith("perf/")}


def module(name: str, folder: Path) -> Any:
    """A module with several micro-batches per step and clipped gradients."""
    settings: dict[str, Any] = {
        "policy": TinyPolicy(hidden=16, layers=2, heads=2),
        # several of a step on every rank
        "micro_batch_tokens": 64,
        # with a small eps a gradient twice as large makes the same step
        "optimizer": lambda p: torch.optim.AdamW(p, lr=2e-2, eps=1e-2),
        "max_grad_norm": 0.2,
        "batch_size": 8,
    }
    if name == "sft":
        sampled = Evaluation(before_training=False, metrics={"chrf": CHRFScore()})
        return SupervisedFineTuning(**settings, engine=TransformersEngine(max_new_tokens=4), evaluation=sampled)
    if name == "reward_model":
        return RewardModeling(**{**settings, "batch_size": 10}, centring=0.1, metrics={"auroc": BinaryAUROC()})
    return PreferenceOptimization(**settings, objective=objective(name), cache=str(folder / f"{name}-cache"))


def objective(name: str) -> Objective:
    """All but DPO look at the rows of all ranks in every step."""
    if name == "aot":
        return MixedObjective({"pairs": AOT(beta=0.5), "sides": AOTUnpaired(beta=0.5)})
    return {"dpo": DPO(beta=0.5), "kto": KTO(beta=0.5), "bco": BCO(beta=0.5)}[name]


def data(name: str) -> PromptData:
    """Rows to learn from, and a number of held-out ones that two ranks cannot share evenly."""
    if name == "reward_model":
        return PromptData(train=Ranked(), validation_size=7)
    task = DigitSorting if name == "sft" else SortedPairs
    train, held = (task(length=4, examples=count, seed=seed) for count, seed in ((20, 0), (5, 1)))
    return PromptData(*(Unpaired(source) if name in ("kto", "bco") else source for source in (train, held)))


def train(name: str, strategy: str, folder: Path) -> None:
    """Three steps, with validation in between and at the end."""
    torch.manual_seed(0)
    export: Callback = (ExportRewardModel if name == "reward_model" else ExportPolicy)(str(folder / name))
    trainer = quiet_trainer(
        devices=1 if strategy == "auto" else 2,
        strategy=strategy,
        max_steps=3,
        val_check_interval=1,
        check_val_every_n_epoch=None,
        num_sanity_val_steps=0,
        default_root_dir=folder,
        callbacks=[export, Logged(folder / f"{name}.json")],
    )
    trainer.fit(module(name, folder), datamodule=data(name))


if __name__ == "__main__":
    torch.set_num_threads(1)
    for run in RUNS:
        train(run, sys.argv[1], Path(sys.argv[2]))
