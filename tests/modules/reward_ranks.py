"""A reward model trained under a strategy; started by test_reward_ranks.py, also as its own second process.

    python reward_ranks.py STRATEGY FOLDER

Writes the reward model to FOLDER, and what was logged to FOLDER.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer

from lightrl import Prompt, PromptData, PromptSource, RewardModeling, TinyPolicy
from lightrl.callbacks.export_reward_model import ExportRewardModel


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
        self.numbers.append({name: float(value) for name, value in trainer.callback_metrics.items()})

    def on_train_end(self, trainer: Trainer, pl_module: Any) -> None:
        if trainer.is_global_zero:
            last = {name: float(value) for name, value in trainer.callback_metrics.items()}
            self.file.write_text(json.dumps([*self.numbers, last]))


def main(strategy: str, folder: Path) -> None:
    """Four steps of several micro-batches, and a validation of a number of prompts that two ranks cannot share evenly."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    module = RewardModeling(
        policy=TinyPolicy(hidden=32, layers=2, heads=4),
        batch_size=10,
        centring=0.1,
        micro_batch_tokens=90,
        # with a small eps a gradient twice as large makes the same step
        optimizer=lambda p: torch.optim.AdamW(p, lr=1e-2, eps=1e-2),
        max_grad_norm=0.2,
    )
    trainer = Trainer(
        accelerator="cpu", devices=1 if strategy == "auto" else 2, strategy=strategy, max_steps=4, val_check_interval=2,
        check_val_every_n_epoch=None, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        callbacks=[ExportRewardModel(str(folder)), Logged(folder.with_suffix(".json"))],
    )  # fmt: skip
    trainer.fit(module, datamodule=PromptData(train=Ranked(), validation_size=7))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
