"""Trains a reward model from random weights on right and wrong answers to GSM8K questions: run
`OMP_NUM_THREADS=1 python -m benchmarks.learning.reward_model example_model_solutions.jsonl`.

The file is that of https://github.com/openai/grade-school-math: 1319 test questions, each with the answers of four models and whether
they are right. For the 731 questions with answers of both kinds, right answers rank above wrong ones. The model learns from 600 questions;
the accuracy is that on the comparisons of the others. A Qwen2 of 2M parameters with random weights and a vocabulary of its own cannot
calculate: it learns what right answers look like. It is compared with two rules that do not read the question: the longer answer, and the
answer of the model that is right more often on the training questions. The curve is also drawn, as loss.png in the output folder.
"""

# ruff: noqa: T201
from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer

from benchmarks.learning.gsm8k_solutions import MODELS, Row, evaluated_trainer, lines, options, prepared
from lightrl import JsonLines, PretrainedPolicy, PromptData, RewardModeling
from lightrl.callbacks.export_policy import ExportRewardModel


class Curve(Callback):
    """Keeps the loss of every step and the evaluations, and prints these."""

    def __init__(self) -> None:
        self.losses, self.evaluations = list[float](), list[tuple[int, dict[str, float]]]()

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, *_: Any) -> None:
        self.losses.append(float(trainer.callback_metrics["loss"]))

    def on_validation_end(self, trainer: Trainer, pl_module: Any) -> None:
        names = ("loss", "accuracy", "margin", "calibration/error")
        numbers = {name: float(trainer.callback_metrics[f"val/{name}"]) for name in names}
        self.evaluations.append((trainer.global_step, numbers))
        recent = statistics.mean(self.losses[-20:]) if self.losses else float("nan")
        shown = "".join(f"{value:>{len(name) + 2}.3f}" for name, value in numbers.items())
        print(f"{trainer.global_step:>6}{recent:>16.3f}{shown}", flush=True)


def main() -> None:
    """Prepare, train, print, draw."""
    arguments = options(__doc__, Path("runs/reward-model-gsm8k"), epochs=2).parse_args()
    policy, learnt, held_out = prepared(arguments)
    started = time.perf_counter()
    curve, scored = train(policy, learnt, held_out, arguments.epochs, arguments.seed, arguments.out)
    seconds = time.perf_counter() - started
    rights = {name: sum(row["right"][name] for row in learnt) for name in MODELS}
    print(f"\naccuracy on the comparisons of {len(held_out)} held-out questions (mean over questions, standard error), {seconds:.0f} s")
    print(f"  reward model             {accuracy(held_out, lambda row, name: scored[row['question'], row[name]])}")
    print(f"  the longer answer        {accuracy(held_out, lambda row, name: len(row[name]))}")
    print(f"  the better model's       {accuracy(held_out, lambda row, name: rights[name])}")
    draw(curve, len(held_out), arguments.out / "loss.png")
    print(f"Curve: {arguments.out / 'loss.png'}   Reward model: {arguments.out / 'reward_model'}")


def train(
    policy: Path, learnt: list[Row], held_out: list[Row], epochs: int, seed: int, out: Path
) -> tuple[Curve, dict[tuple[str, str], float]]:
    """The curve, and the held-out answers' scores by question and answer."""
    torch.manual_seed(seed)
    batch = 16
    steps = -(-len(learnt) // batch) * epochs
    module = RewardModeling(
        policy=PretrainedPolicy(str(policy)),
        batch_size=batch,
        centring=0.01,
        optimizer=lambda p: torch.optim.AdamW(p, lr=1e-3, betas=(0.9, 0.98), weight_decay=0.1),
        lr_scheduler=lambda o: torch.optim.lr_scheduler.OneCycleLR(o, max_lr=1e-3, total_steps=steps + 1, pct_start=0.1),
    )
    files = [lines(out / f"{name}.jsonl", [ranked(row) for row in rows]) for name, rows in (("train", learnt), ("held_out", held_out))]
    ours, theirs = (JsonLines(str(file), prompt="question", answer=None) for file in files)
    curve = Curve()
    trainer = evaluated_trainer(steps, curve, ExportRewardModel(str(out / "reward_model")))
    print(f"{'step':>6}{'training loss':>16}  loss  accuracy  margin  calibration/error")
    data = PromptData(train=ours, validation=theirs, test=theirs, seed=seed, too_long="raise")
    trainer.fit(module, datamodule=data)
    rows: Any = trainer.predict(module, datamodule=data)
    return curve, {(row["prompt"][-1]["content"], row["completion"]): row["score"] for batch in rows for row in batch}


def ranked(row: Row) -> Row:
    """As `RankingColumns` has it."""
    return {"question": row["question"], "completions": [row[n] for n in MODELS], "scores": [int(row["right"][n]) for n in MODELS]}


def accuracy(rows: list[Row], score: Callable[[Row, str], float]) -> str:
    """How often a right answer has the higher score than a wrong one; a tie is half."""
    shares = []
    for row in rows:
        leads = [score(row, a) - score(row, b) for a in MODELS for b in MODELS if row["right"][a] and not row["right"][b]]
        shares.append(statistics.mean(0.5 if lead == 0 else float(lead > 0) for lead in leads))
    return f"{statistics.mean(shares):.3f} +- {statistics.stdev(shares) / len(shares) ** 0.5:.3f}"


def draw(curve: Curve, count: int, path: Path) -> None:
    """Losses and the held-out accuracy over steps."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(ncols=2, figsize=(10, 3.5), layout="constrained")
    steps = [step for step, _ in curve.evaluations]
    left.plot(range(1, len(curve.losses) + 1), curve.losses, color="tab:blue", alpha=0.4, label="training")
    left.plot(steps, [numbers["loss"] for _, numbers in curve.evaluations], "o-", color="tab:orange", label="held out")
    left.axhline(0.6931, color="grey", linestyle=":", label="ln 2")
    left.set(xlabel="optimizer steps", ylabel="Bradley-Terry loss", title="reward model on GSM8K answers")
    right.plot(steps, [numbers["accuracy"] for _, numbers in curve.evaluations], "o-", color="tab:orange")
    right.axhline(0.5, color="grey", linestyle=":")
    right.set(xlabel="optimizer steps", ylabel="accuracy of comparisons", title=f"{count} held-out questions")
    for axes in (left, right):
        axes.grid(alpha=0.3)
    left.legend()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
