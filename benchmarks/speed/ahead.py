"""Compares runs with and without rollouts made ahead: `python -m benchmarks.speed.ahead`, or `make bench CASE=ahead`, on two idle cores.

Time: a policy of 15 million parameters, the trainer on one core and one worker process on the other, completions of about as many seconds
as the steps on them. Arms are interleaved: the embedded engine, `ProcessEngine` with `rollouts_ahead` 0, and with 1. Learning: a policy of
133 thousand parameters sorts six digits, with `rollouts_ahead` 0 and 1, three seeds each; the mean rewards of the last rollouts must lie
within each other's spread.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer
from lightrl_workshop import CodePoints, quiet_trainer

from benchmarks import config_file
from benchmarks.demo_run import latest, lightrl, logged_to, scalars, seeded, write_summary
from benchmarks.logged_process import run_logged
from lightrl import DigitSorting, GroupRelative, GroupSampler, PolicyOptimization, ProcessEngine, PromptData, TinyPolicy, TransformersEngine

ARMS = ("embedded", "sequential", "ahead")
ROLLOUTS, WARM = 8, 3
"""Rollouts of a run, and how many of them are not measured."""
LAST = 30
"""Rollouts whose mean reward says what was learnt."""
TRAINER, WORKER = 0, 1
"""Cores."""
ALPHABET = "=0123456789" + "".join(map(chr, range(0x4E00, 0x4E00 + 4000)))
"""So many characters that EOS is hardly ever sampled: every completion has the same length, and every rollout the same work."""


class Clock(Callback):
    """Notes the seconds of each rollout and its staleness; puts the trainer on its own core once the worker has one."""

    def __init__(self) -> None:
        self.ends, self.phases, self.staleness = list[float](), list[dict[str, float]](), 0.0

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        os.sched_setaffinity(0, {TRAINER})

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, *_: object) -> None:
        self.ends.append(time.perf_counter())
        self.phases.append({name: value for name, value in pl_module.numbers.items() if name.startswith("perf/")})
        self.staleness = max(self.staleness, pl_module.numbers["sampling/staleness_rollouts"])


def run(arm: str, file: Path) -> None:
    """Train for some rollouts; called in a process of its own."""
    torch.set_num_threads(1)
    # whatever is started from here on is on the worker's core
    os.sched_setaffinity(0, {TRAINER if arm == "embedded" else WORKER})
    engine = TransformersEngine(max_new_tokens=128)
    clock = Clock()
    module = PolicyOptimization(
        policy=TinyPolicy(hidden=384, layers=6, heads=8, alphabet=ALPHABET),
        algorithm=GroupRelative(sampler=GroupSampler(group_size=8)),
        rewards={"code points": CodePoints()},
        engine=engine if arm == "embedded" else ProcessEngine(engine),
        prompts_per_rollout=2,
        rollouts_ahead=int(arm == "ahead"),
        micro_batch_tokens=2048,
    )
    quiet_trainer(max_epochs=ROLLOUTS, callbacks=[clock]).fit(module, datamodule=PromptData(train=DigitSorting(examples=1000)))
    seconds = [b - a for a, b in zip(clock.ends, clock.ends[1:], strict=False)][WARM - 1 :]
    parameters = sum(p.numel() for p in module.policy.parameters())
    phases = {name: statistics.median(of[name] for of in clock.phases[WARM:]) for name in clock.phases[-1]}
    said = {"seconds": statistics.median(seconds), "staleness": clock.staleness, "parameters": parameters, "phases": phases}
    file.write_text(json.dumps(said))


def timed(rounds: int, out: Path) -> dict[str, Any]:
    """Seconds of a rollout under each arm, interleaved."""
    found: dict[str, list[dict[str, Any]]] = {arm: [] for arm in ARMS}
    for number in range(rounds):
        for arm in ARMS:
            file = out / f"{arm}-{number}.json"
            run_logged(["-m", __spec__.name, "--run", arm, file], out / f"{arm}-{number}.txt")
            found[arm].append(json.loads(file.read_text()))
        line = ", ".join(f"{arm} {found[arm][-1]['seconds']:.2f} s" for arm in ARMS)
        print(f"round {number + 1}: {line}", flush=True)
    seconds = {arm: [one["seconds"] for one in of] for arm, of in found.items()}
    ratios = [ahead / sequential for ahead, sequential in zip(seconds["ahead"], seconds["sequential"], strict=True)]
    phases = found["ahead"][-1]["phases"]
    print("ahead: " + ", ".join(f"{name.removeprefix('perf/')} {value:.2f}" for name, value in phases.items() if name.endswith("_s")))
    return {
        "parameters": found["ahead"][0]["parameters"],
        **{f"{arm}_s": round(statistics.median(seconds[arm]), 3) for arm in ARMS},
        "ratio": round(statistics.median(ratios), 3),
        "ratios": [round(ratio, 3) for ratio in sorted(ratios)],
        "staleness_max": max(one["staleness"] for one in found["ahead"]),
    }


def learnt(seeds: int, rollouts: int, out: Path) -> dict[str, Any]:
    """Mean rewards of the last rollouts, by arm and seed."""
    rewards: dict[str, list[float]] = {"sequential": [], "ahead": []}
    inner = ["--model.engine", "ProcessEngine", "--model.engine.engine", "TransformersEngine", "--model.engine.engine.max_new_tokens", 8]
    for seed in range(seeds):
        begun = out / f"sft-{seed}"
        lightrl("fit", "--config", config_file("sft_sort"), *seeded(seed), *logged_to(begun))
        policy = latest(begun) / "policy"
        for arm, ahead in (("sequential", 0), ("ahead", 1)):
            folder = out / f"{arm}-{seed}"
            sizes = ["--rollouts", rollouts, "--model.lr_scheduler.total_steps", rollouts, "--model.rollouts_ahead", ahead]
            start = ["--model.policy.path", policy]
            lightrl("fit", "--config", config_file("grpo_sort"), *start, *inner, *sizes, *seeded(seed), *logged_to(folder))
            rewards[arm].append(statistics.mean(scalars(latest(folder), "reward")[-LAST:]))
    spread = max(max(of) - min(of) for of in rewards.values())
    apart = abs(statistics.mean(rewards["ahead"]) - statistics.mean(rewards["sequential"]))
    return {**{f"rewards_{arm}": [round(r, 4) for r in of] for arm, of in rewards.items()}, "spread": spread, "apart": apart}


def main() -> int:
    """Run both comparisons; 1 if overlapping gains too little or learns something else."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="interleaved runs of each arm")
    parser.add_argument("--seeds", type=int, default=3, help="of the runs that learn; 0: none")
    parser.add_argument("--rollouts", type=int, default=500, help="of the runs that learn, as many as the config has")
    parser.add_argument("--limit", type=float, default=0.65, help="most seconds of a rollout, relative to those without rollouts ahead")
    parser.add_argument("--out", type=Path, default=Path("runs/ahead"), help="folder for everything that is written")
    parser.add_argument("--run", nargs=2, metavar=("ARM", "FILE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        run(arguments.run[0], Path(arguments.run[1]))
        return 0
    arguments.out.mkdir(parents=True, exist_ok=True)
    summary = timed(arguments.rounds, arguments.out)
    curves = learnt(arguments.seeds, arguments.rollouts, arguments.out) if arguments.seeds else {}
    write_summary(arguments.out, summary | curves)
    slow = summary["ratio"] > arguments.limit
    differs = bool(curves) and curves["apart"] > curves["spread"]
    print("too little is gained" if slow else "a rollout takes " + f"{summary['ratio']:.2f} of the time")
    print("the rewards differ by more than seeds do" if differs else "the rewards lie within the spread of the seeds" if curves else "")
    return int(slow or differs)


if __name__ == "__main__":
    sys.exit(main())
