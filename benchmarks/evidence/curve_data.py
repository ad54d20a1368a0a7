"""The start and the data of a seed of `make bench CASE=curves`, which both sides read."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import torch

from benchmarks import config_file
from benchmarks.demo_run import latest, logged_to, seeded
from benchmarks.evidence.curve_cases import DIGITS, HELD_OUT, TRAIN
from benchmarks.speed.bench_lightrl import launch

CONFIG = config_file("sft_sort")
DONE = "complete"
"""A file of the folder once everything is there."""


def train_start(folder: Path, seed: int, cores: set[int]) -> None:
    """Train the policy that both sides start from, in a process of its own, unless the start is complete.

    Args:
        folder: of the seed.
        seed: of weights and data.
        cores: on which it runs.
    """
    if (folder / DONE).exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    words = ["fit", "--config", CONFIG, *seeded(seed), "--model.policy.seed", seed, *logged_to(folder / "sft")]
    launch([sys.executable, "-m", "lightrl", *map(str, words)], folder / "sft.txt", cores)


def complete_start(folder: Path, seed: int) -> None:
    """Write a reward model with the policy's trunk and a random head, and the rows, unless they are there.

    Not for several threads at a time: they would share torch's random numbers.

    Args:
        folder: of the seed, with its trained policy.
        seed: of the head and the rows.
    """
    from lightrl import PretrainedPolicy
    from lightrl.policy.reward_network import RewardNetwork

    if (folder / DONE).exists():
        return
    policy = folder / "policy"
    policy.unlink(missing_ok=True)
    policy.symlink_to((latest(folder / "sft") / "policy").resolve())
    torch.manual_seed(seed)
    RewardNetwork(PretrainedPolicy(str(policy)).build()).save(folder / "reward_model")
    write_rows(folder, seed)
    (folder / DONE).touch()


def write_rows(folder: Path, seed: int) -> None:
    """Prompts with their answer, and a wrong one beside it; the same prompt never twice.

    Args:
        folder: gets train.jsonl and held_out.jsonl.
        seed: which prompts, and in which order.
    """
    source = random.Random(seed)
    prompts = [f"{number:0{DIGITS}d}" for number in source.sample(range(10**DIGITS), TRAIN + HELD_OUT)]
    lines = [json.dumps(row(prompt, source)) + "\n" for prompt in prompts]
    (folder / "train.jsonl").write_text("".join(lines[:TRAIN]))
    (folder / "held_out.jsonl").write_text("".join(lines[TRAIN:]))


def row(prompt: str, source: random.Random) -> dict[str, str]:
    """A row with the columns of all methods; the wrong answer has one or two digits changed."""
    answer = "".join(sorted(prompt))
    wrong = answer
    while wrong == answer:
        digits = list(answer)
        for place in source.sample(range(DIGITS), source.randint(1, 2)):
            digits[place] = source.choice("0123456789")
        wrong = "".join(digits)
    return {"prompt": f"{prompt}=", "answer": answer, "completion": answer, "chosen": answer, "rejected": wrong}
