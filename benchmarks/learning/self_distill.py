"""Compares self-distillation with GRPO, and with a larger teacher, on `sort6`: `make learn TASK=self_distill`.

A policy of 133K parameters is brought to 0.3 of right answers by supervised fine-tuning, mostly on prompts in front of which the
answer is shown ("023479>493027="), so that it can follow what it reads. From there it learns by GRPO (grpo_sort.yaml), from a teacher
of a million parameters (gkd_sort.yaml), from itself with the answer in front (opsd_sort.yaml), and from itself with another completion
of the group that was right (sdpo_sort.yaml), until it has 0.85 of the larger teacher's accuracy on 1,024 held-out prompts, where nothing
is shown. The table counts the completions that it has sampled until then, and is also written as results.json.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

from benchmarks import config_file
from benchmarks.learning.distill import compare, written
from benchmarks.learning.learn import fit, seeded

NAMES = ("grpo", "gkd", "opsd", "sdpo")
SHOWN = 0.9
"""Of the rows of the warm start, those with the answer in front of the prompt."""
ROWS = 20_000


def main() -> None:
    """Run what was asked for, and print the table."""
    compare(NAMES, follower, __doc__ or "", Path("runs/self_distill"))


def follower(seed: int, out: Path) -> Path:
    """Folder of a policy that repeats an answer which it is shown, and sorts three in ten by itself."""
    folder = out / f"sft-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    numbers = random.Random(seed)
    with (folder / "rows.jsonl").open("w") as file:
        for _ in range(ROWS):
            digits = "".join(numbers.choice("0123456789") for _ in range(6))
            answer = "".join(sorted(digits))
            prompt = f"{answer}>{digits}=" if numbers.random() < SHOWN else f"{digits}="
            file.write(json.dumps({"prompt": prompt, "answer": answer}) + "\n")
    rows = {"class_path": "JsonLines", "init_args": {"path": str(folder / "rows.jsonl"), "answer": "answer", "chat": False}}
    held_out = {"class_path": "DigitSorting", "init_args": {"length": 6, "examples": 1024}}
    content = {"trainer": {"max_steps": 1500}, "data": {"train": rows, "validation": held_out, "validation_size": 0}}
    words = ["--config", config_file("sft_sort"), "--config", written(content, folder / "overrides.yaml"), *seeded(seed)]
    return fit([*words, "--model.policy.seed", seed], folder) / "policy"


if __name__ == "__main__":
    main()
