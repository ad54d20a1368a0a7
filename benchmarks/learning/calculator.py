"""A policy that cannot add learns to call a calculator: warm start by SFT, then GRPO, and a summary of what came of it.

    python -m benchmarks.learning.calculator --seed 0 --out runs/calculator

In the warm start no sum is right that was not calculated: a prompt is answered by a random number or by a call, and half of the calls have
a wrong digit. Reward is an exact match alone; nothing rewards a call.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import config_file
from benchmarks.demo_run import latest, lightrl, logged_to, scalars, seeded, write_summary

HERE = Path(__file__).resolve().parent
CONFIG = config_file("grpo_calculator")
ROWS = 20_000
CALLED, RIGHT = 0.4, 0.5
"""The share of prompts that are answered by a call, and the share of those calls that have the right numbers."""
AFTER = 0.5
"""The share of rows that answer a result."""


def main() -> None:
    """Run the demonstration."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of weights, data order and sampling")
    parser.add_argument("--out", type=Path, default=Path("runs/calculator"), help="folder for logs, policies and the summary")
    arguments = parser.parse_args()
    started = time.perf_counter()
    sft, grpo = arguments.out / "sft", arguments.out / "grpo"
    warm_start(arguments.seed, arguments.out, sft)
    lightrl(
        "fit", "--config", CONFIG, *seeded(arguments.seed), *logged_to(grpo), "--model.policy.path", latest(sft) / "policy",
        "--model.engine.seed", arguments.seed, "--model.seed", arguments.seed,
    )  # fmt: skip
    report(arguments.seed, arguments.out, latest(grpo), time.perf_counter() - started)


def warm_start(seed: int, out: Path, sft: Path) -> None:
    """Write the data, and train the policy that GRPO starts from."""
    out.mkdir(parents=True, exist_ok=True)
    file = out / "warm_start.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows(random.Random(seed))))
    lightrl(
        "fit", "--config", HERE / "calculator_warm_start.yaml", *seeded(seed), *logged_to(sft),
        "--model.policy.seed", seed, "--data.train.path", file,
    )  # fmt: skip


def rows(draw: random.Random) -> Iterator[dict[str, str]]:
    """Distinct rows of the warm start: turns as the policy would write them, most of them useless."""
    made: set[tuple[str, str]] = set()
    while len(made) < ROWS:
        row = one_row(draw)
        if row not in made:
            made.add(row)
            yield {"prompt": row[0], "answer": row[1]}


def one_row(draw: random.Random) -> tuple[str, str]:
    """A prompt, perhaps with a call and its result, and the turn that follows."""
    a, b = draw.randrange(100), draw.randrange(100)
    prompt = f"{a}+{b}="
    x, y = (a, b) if draw.random() < RIGHT else with_wrong_digit(draw, a, b)
    call = f"[add({x},{y})]"
    if draw.random() < AFTER:
        return f"{prompt}{call}{x + y}=", str(x + y)
    return prompt, call if draw.random() < CALLED else str(draw.randrange(199))


def with_wrong_digit(draw: random.Random, a: int, b: int) -> tuple[int, int]:
    """Two numbers, of which one has another digit somewhere."""
    text = f"{a},{b}"
    place = draw.choice([i for i, character in enumerate(text) if character.isdigit()])
    other = draw.choice([digit for digit in "0123456789" if digit != text[place]])
    x, y = f"{text[:place]}{other}{text[place + 1 :]}".split(",")
    return int(x), int(y)


def report(seed: int, out: Path, run: Path, seconds: float) -> None:
    """Print the summary, and write it."""
    accuracy = scalars(run, "val/rewards/correct/mean")
    calls = scalars(run, "environment/tools/add/calls")
    summary = {
        "seed": seed,
        "start_accuracy": round(accuracy[0], 4),
        "final_accuracy": round(accuracy[-1], 4),
        "start_calls": calls[0],
        "final_calls": calls[-1],
        "rollouts": len(calls),
        "train_seconds": round(seconds, 1),
    }
    write_summary(out, summary)
    print("accuracy: 1024 held-out prompts, sampled at temperature 1; calls: in a rollout of 256 episodes")


if __name__ == "__main__":
    main()
