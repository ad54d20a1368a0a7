"""Preference optimisation in one process, or in two that share every step; started by test_preference_ranks.py.

    python preference_ranks.py auto FOLDER
    python -m torch.distributed.run --standalone --nproc-per-node 2 preference_ranks.py ddp FOLDER

For each objective FOLDER/OBJECTIVE has the policy after three steps, and FOLDER/OBJECTIVE.json what was logged.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from lightning.pytorch import Trainer
from lightrl_preference import DPO, KTO

from lightrl import Objective, PreferenceOptimization, PromptData, SortedPairs, TinyPolicy, Unpaired
from lightrl.callbacks.export import ExportPolicy


def train(objective: Objective, strategy: str, folder: Path) -> None:
    """Three steps of several micro-batches, and a validation of a number of rows that two ranks cannot share evenly."""
    name = type(objective).__name__
    train, held = (SortedPairs(length=4, examples=count, seed=seed) for count, seed in ((20, 0), (5, 1)))
    if isinstance(objective, KTO):
        train, held = Unpaired(train), Unpaired(held)  # type: ignore[assignment]
    module = PreferenceOptimization(
        policy=TinyPolicy(hidden=16, layers=1, heads=2),
        objective=objective,
        batch_size=8,
        cache=str(folder / "cache"),
        micro_batch_tokens=64,
        # with a small eps a gradient twice as large makes the same step
        optimizer=lambda p: torch.optim.AdamW(p, lr=5e-2, eps=1e-2),
        max_grad_norm=0.2,
    )
    trainer = Trainer(
        accelerator="cpu", devices=1 if strategy == "auto" else 2, strategy=strategy, max_steps=3, val_check_interval=3,
        check_val_every_n_epoch=None, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        num_sanity_val_steps=0, default_root_dir=folder, callbacks=[ExportPolicy(str(folder / name))],
    )  # fmt: skip
    trainer.fit(module, datamodule=PromptData(train=train, validation=held))
    if trainer.is_global_zero:
        logged = {key: float(value) for key, value in trainer.callback_metrics.items() if not key.startswith("perf/")}
        (folder / f"{name}.json").write_text(json.dumps(logged))


if __name__ == "__main__":
    torch.set_num_threads(1)
    # of the second, every step looks at the rows of all ranks
    for chosen in (DPO(beta=0.5), KTO(beta=0.5)):
        train(chosen, sys.argv[1], Path(sys.argv[2]))
