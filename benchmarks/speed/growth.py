"""How the cost of a training step, and of reading data, grows with the work: `make bench CASE=growth`.

Each series changes one thing: rows, lengths, prompts, groups, the vocabulary, or the number of prompts in the data. Counted is the
processor time of this process, on one thread. The work is arithmetic: the multiplications of the network in generation and training, with
attention and its square of the length; of data, the number of rows. The exponent is the slope of cost over work, both as logarithms: 1 is
in proportion.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.demo_run import write_summary
from benchmarks.speed.bench_cases import Rollouts
from benchmarks.speed.bench_lightrl import rollout_config
from benchmarks.speed.bench_policy import SIZES, write_policy, write_prompts

FEW = Rollouts("1M", cap=32, mean_length=None, steps=4, warm=1, prompts=2)
SERIES: dict[str, list[tuple[int, Rollouts]]] = {
    "rows of a rollout": [(8 * n, replace(FEW, prompts=n)) for n in (1, 4, 16, 32)],
    "tokens of a completion": [(n, replace(FEW, cap=n)) for n in (16, 64, 256, 768)],
    "tokens of a prompt": [(n, replace(FEW, prompts=4, cap=16, prompt_tokens=n)) for n in (10, 100, 300, 1000)],
    "rows of a group, 128 rows": [(n, replace(FEW, prompts=128 // n, group=n, prompt_tokens=100)) for n in (8, 64)],
    "tokens of the vocabulary": [(n, replace(FEW, cap=16, vocabulary=n)) for n in (100, 2000, 20_000, 152_000)],
}
"""By what changes: its values, and the rollouts that have it."""
DATA = (10_000, 100_000, 1_000_000)
"""Prompts of the data."""


@dataclass(frozen=True)
class Point:
    """A measurement."""

    value: int
    """Of what changes."""
    work: float
    """Of it: GFLOP of a step, or thousands of rows."""
    cpu_s: float
    """Processor time."""
    peak_gb: float | None = None
    """Memory above that of the imports."""


def work(case: Rollouts) -> float:
    """GFLOP of a step: generation, and a forward and a backward pass that cost three forward passes."""
    width, layers = SIZES[case.size]
    weights = layers * 16 * width**2
    prompt, whole = case.prompt_tokens, case.prompt_tokens + case.cap

    def trunk(tokens: int) -> float:
        return 2.0 * weights * tokens + 2.0 * layers * width * tokens**2

    head = 2.0 * width * (case.vocabulary or 24) * case.cap
    # a group shares its prompt when it generates
    generation = trunk(prompt) / case.group + trunk(whole) - trunk(prompt) + head
    return case.rows * (generation + 3 * (trunk(whole) + head)) / 1e9


def step(case: Rollouts, folder: Path) -> float:
    """CPU seconds of a training step."""
    from lightrl.cli import main as lightrl

    policy, prompts = folder / "policy", folder / "prompts.jsonl"
    folder.mkdir(parents=True, exist_ok=True)
    write_policy(policy, case.size, case.mean_length, case.vocabulary)
    write_prompts(prompts, case)
    (folder / "config.json").write_text(json.dumps(rollout_config(case, policy, prompts, folder)))
    with (folder / "log.txt").open("w") as log, contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
        status = lightrl(["fit", "--config", str(folder / "config.json")])
    if status:
        sys.exit(f"{folder / 'log.txt'} says what failed")
    steps = json.loads((folder / "meter.json").read_text())["steps"][case.warm :]
    return statistics.median(one["seconds"] for one in steps)


def exponent(points: Sequence[Point]) -> float:
    """The slope of log cost over log work, by least squares."""
    x, y = ([math.log(getattr(point, name)) for point in points] for name in ("work", "cpu_s"))
    return statistics.linear_regression(x, y).slope


def series(out: Path) -> dict[str, list[Point]]:
    """Everything measured."""
    found: dict[str, list[Point]] = {}
    for name, cases in SERIES.items():
        for value, case in cases:
            point = Point(value, work(case), step(case, out / name.replace(" ", "_").replace(",", "") / str(value)))
            print(f"{name}: {value}: {point.cpu_s:.3f} s for {point.work:.2f} GFLOP", flush=True)
            found.setdefault(name, []).append(point)
    for rows in DATA:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.speed.growth_data", str(rows), out / "data"], check=True, capture_output=True, text=True
        )
        point = Point(rows, rows / 1000, **json.loads(done.stdout.splitlines()[-1]))
        print(f"prompts of the data: {rows}: {point.cpu_s:.1f} s, {point.peak_gb} GB", flush=True)
        found.setdefault("prompts of the data", []).append(point)
    return found


def table(name: str, points: Sequence[Point]) -> str:
    """A series as a table in Markdown, with what it grows by."""
    memory = points[0].peak_gb is not None
    unit = "thousand rows" if memory else "GFLOP"
    lines = [f"| {name} | work, {unit} | CPU s |{' memory, GB |' if memory else ''}", "|---" * (4 if memory else 3) + "|"]
    lines += [f"| {p.value:,} | {p.work:,.2f} | {p.cpu_s:.2f} |{f' {p.peak_gb:.2f} |' if memory else ''}" for p in points]
    same = max(p.work for p in points) < 1.2 * min(p.work for p in points)
    grown = (
        f"The work is nearly the same, and the cost {points[-1].cpu_s / points[0].cpu_s:.2f} times as much."
        if same
        else f"Cost grows with the work to the power {exponent(points):.2f}."
    )
    return "\n".join([*lines, "", grown, ""])


def plot(found: dict[str, list[Point]], file: Path) -> None:
    """Cost over work, each as a multiple of the least of its series."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for name, points in found.items():
        if len(points) > 2:
            works, costs = ([getattr(p, what) / getattr(points[0], what) for p in points] for what in ("work", "cpu_s"))
            axes.loglog(works, costs, marker="o", label=f"{name}, {points[0].value:,} to {points[-1].value:,}: {exponent(points):.2f}")
    most = max(p.work / points[0].work for points in found.values() for p in points)
    axes.loglog([1, most], [1, most], color="gray", linestyle="--", label="in proportion: 1")
    axes.set(xlabel="work, as a multiple of the least", ylabel="CPU time, as a multiple of the least", title="Cost beside the work")
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
    figure.savefig(file, dpi=130)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), help="on which everything runs")
    parser.add_argument("--out", type=Path, default=Path("runs/growth"), help="folder for everything that is written")
    arguments = parser.parse_args()
    out = arguments.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    os.sched_setaffinity(0, {arguments.core})
    print(f"{sum(map(len, SERIES.values())) + len(DATA)} measurements, some 6 minutes on an idle core", flush=True)
    found = series(out)
    (out / "table.md").write_text("\n".join(table(name, points) for name, points in found.items()))
    plot(found, out / "growth.png")
    write_summary(out, {name: [vars(point) for point in points] for name, points in found.items()})


if __name__ == "__main__":
    main()
