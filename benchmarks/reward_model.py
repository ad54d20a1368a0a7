"""A reward model from random weights on right and wrong answers to GSM8K questions: run
`OMP_NUM_THREADS=1 python benchmarks/reward_model.py example_model_solutions.jsonl`.

The file is that of https://github.com/openai/grade-school-math: 1319 test questions, each with the answers of four models and whether
they are right. The 731 questions with answers of both kinds are ranked, a right answer above every wrong one; 600 are learnt from, and
the accuracy is that of the comparisons of the others. A 2M-parameter Qwen2 with random weights and a vocabulary of its own cannot
calculate: what it finds is what right answers look like. Beside it stand two rules that do not read the question: the longer answer, and
the answer of the model that is right more often on the questions learnt from. The curve is also drawn, as loss.png in the output folder.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer

from lightrl import JsonLines, PretrainedPolicy, PromptData, RewardModeling
from lightrl.callbacks.export_reward_model import ExportRewardModel
from lightrl.testing import quiet_trainer

MODELS = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")
MAKE_POLICY = Path(__file__).resolve().parent.parent / "examples" / "make_tiny_qwen.py"
Row = dict[str, Any]


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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="example_model_solutions.jsonl")
    parser.add_argument("--out", type=Path, default=Path("runs/reward-model-gsm8k"), help="folder for data, models and the curve")
    parser.add_argument("--train", type=int, default=600, help="questions to learn from")
    parser.add_argument("--epochs", type=int, default=2, help="passes over them")
    parser.add_argument("--size", default="2m", help="of the policy whose trunk is taken, as in examples/make_tiny_qwen.py")
    parser.add_argument("--seed", type=int, default=0, help="of the split, the weights and the order")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    learnt, held_out = split(questions(arguments.file), arguments.train, arguments.seed)
    policy = make_policy(learnt, arguments.size, arguments.seed, arguments.out)
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


def questions(file: Path) -> list[Row]:
    """Those with right and wrong answers: question, the four answers by their model, and which are right."""
    rows = []
    for line in file.read_text(encoding="utf-8").splitlines():
        raw = json.loads(line)
        right = {name: bool(raw[name]["is_correct"]) for name in MODELS}
        if len(set(right.values())) == 2:
            rows.append({"question": raw["question"], "right": right, **{name: raw[name]["solution"] for name in MODELS}})
    return rows


def split(rows: list[Row], count: int, seed: int) -> tuple[list[Row], list[Row]]:
    """Questions to learn from, and the rest."""
    if not 1 <= count < len(rows):
        sys.exit(f"--train is {count}, and the file has {len(rows)} questions with right and wrong answers")
    rows = random.Random(seed).sample(rows, len(rows))
    return rows[:count], rows[count:]


def make_policy(rows: list[Row], size: str, seed: int, out: Path) -> Path:
    """A policy with random weights, whose vocabulary is made of what is learnt from."""
    corpus = lines(out / "corpus.jsonl", [{"text": text} for row in rows for text in (row["question"], *(row[name] for name in MODELS))])
    command = [sys.executable, MAKE_POLICY, out / "policy", "--text", corpus, "--field", "text", "--size", size, "--seed", seed]
    subprocess.run(list(map(str, command)), check=True)
    return out / "policy"


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
    trainer = quiet_trainer(
        max_steps=steps,
        val_check_interval=max(1, steps // 6),
        check_val_every_n_epoch=None,
        num_sanity_val_steps=0,
        callbacks=[curve, ExportRewardModel(str(out / "reward_model"))],
    )
    print(f"{'step':>6}{'training loss':>16}  loss  accuracy  margin  calibration/error")
    data = PromptData(train=ours, validation=theirs, test=theirs, seed=seed, too_long="raise")
    trainer.fit(module, datamodule=data)
    rows: Any = trainer.predict(module, datamodule=data)
    return curve, {(row["prompt"][-1]["content"], row["completion"]): row["score"] for batch in rows for row in batch}


def ranked(row: Row) -> Row:
    """As `RankingColumns` has it."""
    return {"question": row["question"], "completions": [row[n] for n in MODELS], "scores": [int(row["right"][n]) for n in MODELS]}


def lines(file: Path, rows: list[Row]) -> Path:
    """Write rows as JSON lines."""
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


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
