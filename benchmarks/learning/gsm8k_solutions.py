"""The answers of four models to GSM8K's questions, what is learnt from them, and the options that say so."""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, Trainer
from lightrl_workshop import quiet_trainer

from benchmarks import ROOT

MODELS = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")
MAKE_POLICY = ROOT / "examples" / "make_tiny_qwen.py"
Row = dict[str, Any]


def options(description: str | None, out: Path, epochs: int) -> argparse.ArgumentParser:
    """Options of a benchmark on these answers, with its own folder and number of passes as defaults."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="example_model_solutions.jsonl")
    parser.add_argument("--out", type=Path, default=out, help="folder for data, models and results")
    parser.add_argument("--train", type=int, default=600, help="questions to learn from")
    parser.add_argument("--epochs", type=int, default=epochs, help="passes over them")
    parser.add_argument("--size", default="2m", help="of the policy, as in examples/make_tiny_qwen.py")
    parser.add_argument("--seed", type=int, default=0, help="of the split, the choice of answers, the weights and the order")
    return parser


def prepared(arguments: argparse.Namespace) -> tuple[Path, list[Row], list[Row]]:
    """The folder of a policy with random weights, questions to learn from, and the rest."""
    arguments.out.mkdir(parents=True, exist_ok=True)
    learnt, held_out = split(questions(arguments.file), arguments.train, arguments.seed)
    return make_policy(learnt, arguments.size, arguments.seed, arguments.out), learnt, held_out


def evaluated_trainer(steps: int, *callbacks: Callback) -> Trainer:
    """A trainer of so many steps that looks at the held-out questions six times."""
    return quiet_trainer(
        max_steps=steps,
        val_check_interval=max(1, steps // 6),
        check_val_every_n_epoch=None,
        num_sanity_val_steps=0,
        callbacks=callbacks,
    )


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


def lines(file: Path, rows: list[Row]) -> Path:
    """Write rows as JSON lines."""
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file
