"""Compares curves of learning with TRL's: `python -m benchmarks.evidence.curves`, or `make bench CASE=curves`.

Both sides start from the same weights, read the same rows in the same order, and have the same settings (curve_cases.py). TRL is
installed in an environment of its own, in the version of benchmarks/trl.txt. A run that is complete in the output folder is not repeated,
so that the command goes on where it was stopped. The plan is printed first; `--plan` prints nothing else. The table and the picture are
written to docs/curves.md and docs/images/curves.png. The page also has what `make learn TASK=guess`, and
the same with `blackjack` and `frozenlake`, wrote last.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks import ROOT
from benchmarks.evidence.curve_agreement import Agreement, agreement, area
from benchmarks.evidence.curve_cases import METHODS, NUMBERS, SIDES, WRITTEN, Curves, run_folder, start_folder
from benchmarks.evidence.curve_data import DONE, complete_start, train_start
from benchmarks.evidence.curve_page import write_page
from benchmarks.peer_environment import make_environment
from benchmarks.speed.bench_lightrl import launch

EXPECTED_S = {
    "start": 12.0,
    "process": 4.0,
    "grpo": 15.0,
    "rloo": 15.0,
    "grpo_whole_groups": 15.0,
    "grpo_one_step": 13.0,
    "grpo_same_completions": 4.0,
    "dpo": 16.0,
    "reward_model": 12.0,
    "sft": 7.0,
}
"""Of a start, of the start of a process, and of the runs of both sides of a method: seconds on an idle core."""


@dataclass(frozen=True)
class Job:
    """The runs of one side and seed that are missing; one process carries them out, since its start takes longer than many a run."""

    side: str
    seed: int
    methods: tuple[str, ...]


def main() -> int:
    """Print the plan, run what is missing, write the page; 0 whatever the verdicts are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=METHODS, default=list(METHODS), metavar="METHOD", help=f"of: {', '.join(METHODS)}")
    parser.add_argument("--jobs", type=int, default=2, help="runs at the same time, one core each")
    parser.add_argument("--out", type=Path, default=Path("runs/curves"), help="folder for everything that is written")
    parser.add_argument("--trl", type=Path, help="environment of TRL; made if it is not there [OUT/trl]")
    parser.add_argument("--plan", action="store_true", help="print the plan and end")
    arguments = parser.parse_args()
    out = arguments.out.absolute()
    jobs = missing(arguments.only, out)
    print(plan(arguments.only, jobs, out, arguments.jobs), flush=True)
    if arguments.plan:
        return 0
    trl = (arguments.trl or out / "trl").absolute()
    if jobs:
        make_environment(trl, ROOT / "benchmarks" / "trl.txt")
        work(jobs, out, trl, arguments.jobs)
    found = {name: curves_of(name, out) for name in METHODS}
    verdicts = {(name, number): compared(found[name], number) for name in METHODS if found[name] for number in NUMBERS[name]}
    width = max((len(f"{name}: {number}") for name, number in verdicts), default=0) + 2
    for (name, number), verdict in verdicts.items():
        print(f"{f'{name}: {number}':<{width}}{verdict.word:<10}{verdict.difference:+.5f} +- {verdict.half:.5f}, TRL {verdict.peer:.4f}")
    print(f"Written: {write_page(found, verdicts)}")
    return 0


def missing(names: Sequence[str], out: Path) -> list[Job]:
    """What is to be run."""
    jobs = []
    for seed in range(max(METHODS[name].seeds for name in names)):
        wanted = [name for name in names if seed < METHODS[name].seeds]
        for side in SIDES:
            methods = tuple(name for name in wanted if not (run_folder(out, name, side, seed) / WRITTEN).exists())
            jobs += [Job(side, seed, methods)] if methods else []
    return jobs


def plan(names: Sequence[str], jobs: Sequence[Job], out: Path, at_once: int) -> str:
    """What will be run, what has been, and how long the rest will take."""
    left = sum(len(job.methods) for job in jobs)
    starts = sum(not (start_folder(out, seed) / DONE).exists() for seed in {job.seed for job in jobs})
    seconds = sum(EXPECTED_S["process"] + sum(EXPECTED_S[name] / 2 for name in job.methods) for job in jobs)
    total = len(SIDES) * sum(METHODS[name].seeds for name in names)
    minutes = (seconds + starts * EXPECTED_S["start"]) / 60 / at_once
    each = ", ".join(f"{name} ({METHODS[name].seeds} seeds)" for name in names)
    return (
        f"{each}: {total} runs of lightrl and of TRL, of which {total - left} are complete\n"
        f"The others take about {minutes:.0f} minutes on {at_once} idle cores; typed again, the command goes on where it was stopped."
    )


def work(jobs: Sequence[Job], out: Path, trl: Path, at_once: int) -> None:
    """Carry out runs in processes of their own, so many at a time; the starts come first, then TRL, whose completions are learnt from."""
    cores = os.sched_getaffinity(0)

    def start(seed: int) -> None:
        train_start(start_folder(out, seed), seed, cores)
        print(f"the policy of start {seed} is trained", flush=True)

    def run(job: Job) -> None:
        for name in job.methods:
            run_folder(out, name, job.side, job.seed).mkdir(parents=True, exist_ok=True)
        python = sys.executable if job.side == "lightrl" else str(trl / "bin" / "python")
        words = ["-m", f"benchmarks.evidence.curve_{job.side}", str(out), str(job.seed), *job.methods]
        launch([python, *words], out / f"{job.side}-{job.seed}.txt", cores)
        print(f"{job.side} {job.seed} is complete: {', '.join(job.methods)}", flush=True)

    with ThreadPoolExecutor(at_once) as pool:
        seeds = sorted({job.seed for job in jobs})
        list(pool.map(start, seeds))
        for seed in seeds:
            complete_start(start_folder(out, seed), seed)
        for side in reversed(SIDES):
            list(pool.map(run, [job for job in jobs if job.side == side]))


def curves_of(name: str, out: Path) -> dict[str, list[Curves]]:
    """The curves of a method by side, one per seed that both sides have completed; empty with fewer than two of them."""
    files = {side: [run_folder(out, name, side, seed) / WRITTEN for seed in range(METHODS[name].seeds)] for side in SIDES}
    done = [seed for seed in range(METHODS[name].seeds) if all(files[side][seed].exists() for side in SIDES)]
    return {side: [json.loads(files[side][seed].read_text()) for seed in done] for side in SIDES} if len(done) > 1 else {}


def compared(found: dict[str, list[Curves]], number: str) -> Agreement:
    """The verdict on one number of a method."""
    own, peer = ([area(curves[number]) for curves in found[side]] for side in SIDES)
    return agreement(own, peer)


if __name__ == "__main__":
    sys.exit(main())
