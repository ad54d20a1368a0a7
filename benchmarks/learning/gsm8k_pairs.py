"""Trains a random policy with DPO on right and wrong answers to GSM8K questions: run
`OMP_NUM_THREADS=1 python -m benchmarks.learning.gsm8k_pairs example_model_solutions.jsonl`.

The file is that of https://github.com/openai/grade-school-math: 1319 test questions, each with the answers of four models and whether
they are right. For each of the 731 questions with answers of both kinds, one right answer is chosen and one wrong one rejected. The policy
learns from 600 pairs. The table shows the margin between the implicit rewards of the other pairs, which is 0 at the start, and how often it
is positive. A policy of 2M random weights cannot calculate: like a reward model of its size
(benchmarks/learning/reward_model.py), it learns what right answers look like. The numbers are also written as results.json.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer
from lightrl_preference import DPO

from benchmarks.learning.gsm8k_solutions import MODELS, Row, evaluated_trainer, lines, options, prepared
from lightrl import JsonLines, PreferenceOptimization, PretrainedPolicy, PromptData

NAMES = ("loss", "rewards/margins", "rewards/accuracies", "logps/chosen", "logps/rejected")


class Evaluations(Callback):
    """Keeps the evaluations and prints them."""

    def __init__(self) -> None:
        self.rows: list[dict[str, float]] = []

    def on_validation_end(self, trainer: Trainer, pl_module: Any) -> None:
        numbers = {name: float(trainer.callback_metrics[f"val/{name}"]) for name in NAMES}
        self.rows.append({"step": trainer.global_step, **numbers})
        print(f"{trainer.global_step:>6}" + "".join(f"{value:>{len(name) + 2}.3f}" for name, value in numbers.items()), flush=True)


def main() -> None:
    """Prepare, train, print."""
    parser = options(__doc__, Path("runs/gsm8k-pairs"), epochs=3)
    parser.add_argument("--beta", type=float, default=0.1, help="of DPO")
    arguments = parser.parse_args()
    policy, learnt, held_out = prepared(arguments)
    started = time.perf_counter()
    rows = train(policy, learnt, held_out, arguments)
    seconds, first, last = time.perf_counter() - started, rows[0], rows[-1]
    print(f"\n{len(held_out)} held-out pairs, {last['step']} steps, {seconds:.0f} s:", end=" ")
    print(f"margin {first['rewards/margins']:.3f} -> {last['rewards/margins']:.3f}, positive in {last['rewards/accuracies']:.3f} of them")
    (arguments.out / "results.json").write_text(json.dumps({"seconds": seconds, "evaluations": rows}, indent=2) + "\n")


def train(policy: Path, learnt: list[Row], held_out: list[Row], arguments: argparse.Namespace) -> list[dict[str, float]]:
    """Evaluations of the held-out pairs before the first step, during training and after it."""
    torch.manual_seed(arguments.seed)
    batch, chance = 16, random.Random(arguments.seed)
    steps = -(-len(learnt) // batch) * arguments.epochs
    module = PreferenceOptimization(
        policy=PretrainedPolicy(str(policy)),
        objective=DPO(beta=arguments.beta),
        batch_size=batch,
        cache=str(arguments.out / "reference"),
        optimizer=lambda p: torch.optim.AdamW(p, lr=5e-4, betas=(0.9, 0.98), weight_decay=0.0),
        lr_scheduler=lambda o: torch.optim.lr_scheduler.OneCycleLR(o, max_lr=5e-4, total_steps=steps + 1, pct_start=0.1),
    )
    kinds = {"train": learnt, "held_out": held_out}
    files = {name: lines(arguments.out / f"{name}_pairs.jsonl", [pair(row, chance) for row in rows]) for name, rows in kinds.items()}
    ours, theirs = (JsonLines(str(file), prompt="question", answer=None) for file in files.values())
    evaluations = Evaluations()
    trainer = evaluated_trainer(steps, evaluations)
    print(f"{'step':>6}  " + "  ".join(NAMES))
    data = PromptData(train=ours, validation=theirs, seed=arguments.seed)
    trainer.validate(module, datamodule=data, verbose=False)
    trainer.fit(module, datamodule=data)
    return evaluations.rows


def pair(row: Row, chance: random.Random) -> Row:
    """A right answer and a wrong one."""
    chosen, rejected = (chance.choice([name for name in MODELS if row["right"][name] is right]) for right in (True, False))
    return {"question": row["question"], "chosen": row[chosen], "rejected": row[rejected]}


if __name__ == "__main__":
    main()
