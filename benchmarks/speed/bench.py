"""Compares lightrl with TRL on the same work: `python -m benchmarks.speed.bench`, or `make bench`, on an idle core.

Each side is installed in an environment of its own. Both sides have the same weights, prompts, lengths, optimizer, type and number of
threads (one); all else is their default, with logging, checkpoints and progress on. Counted is the processor time of the training
process. Runs of both sides alternate, each round with a seed of its own; a ratio is TRL's median divided by lightrl's, with the least and
the largest ratio of a round beside it.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.demo_run import write_summary
from benchmarks.peer_environment import make_environment
from benchmarks.speed.bench_cases import EXAMPLES, EXPECTED_S, REAL, ROLLOUTS, ROUNDS, SORT6
from benchmarks.speed.bench_meter import PHASES
from benchmarks.speed.bench_sides import CASES, OWN, SIDES, TRL, Bench

MADE = Path("runs/bench")
"""Where the environment of each side is made."""

WANTED = {
    "ratio_skewed": (4.0, max),
    "ratio_flat": (1.6, max),
    "ratio_15m": (1.3, max),
    "ratio_sort6": (3.4, max),
    "ratio_logprobs": (6.5, max),
    "logprobs_extra_gb": (0.25, min),
    "overhead_ms": (15.0, min),
    "first_rollout_s": (8.0, min),
    "first_rollout_real_s": (12.0, min),
    "rss_ratio_15m": (1.0, min),
    "ratio_smollm2": (3.0, max),
    "ratio_smollm2_lora": (3.0, max),
    "ratio_smollm2_sft": (1.8, max),
    "ratio_smollm2_dpo": (1.8, max),
    "training_share": (0.75, max),
    "generate_32": (2.1, max),
    "generate_8": (2.0, max),
    "generate_1": (1.5, max),
}
"""What the project wants of each figure, and on which side of it the figure should lie."""
FIRST_ROLLOUT = {"overhead": "first_rollout_s", REAL: "first_rollout_real_s"}
"""The cases of which it is said when the first rollout is there, and in which figure."""
Found = dict[str, list[dict[str, Any]]]
"""What the meter wrote in each round, by side."""


def cost(name: str, found: dict[str, Any]) -> float:
    """Processor time of a case: microseconds a token, or seconds where a run has an end of its own, infinite if it was not reached."""
    if name == "sort6":
        last = [step["reward"] for step in found["steps"]][-int(SORT6["over"]) :]
        return sum(step["seconds"] for step in found["steps"]) if statistics.mean(last) >= SORT6["reward"] else math.inf
    if name == "logprobs":
        return float(found["cpu_s"])
    steps = counted(name, found)
    return 1e6 * sum(step["seconds"] for step in steps) / sum(step["tokens"] for step in steps)


def phases(name: str, found: dict[str, Any]) -> dict[str, float]:
    """Milliseconds of a step in each phase, and in none of them."""
    steps = counted(name, found)
    spent = {phase: 1e3 * statistics.median(step[phase] for step in steps) for phase in PHASES}
    own = 1e3 * statistics.median(step["seconds"] - sum(step[phase] for phase in PHASES) for step in steps)
    return {**spent, "own": own}


def counted(name: str, found: dict[str, Any]) -> list[dict[str, float]]:
    """The steps of a run after those that warm it up."""
    warm = (ROLLOUTS | EXAMPLES)[name].warm
    steps: list[dict[str, float]] = found["steps"][warm:]
    return steps


def figures(name: str, found: Found) -> dict[str, Any]:
    """What the summary says of a case."""
    costs = {side: [cost(name, run) for run in found[side]] for side in SIDES}
    medians = {side: statistics.median(costs[side]) for side in SIDES}
    ratios = sorted(trl / own for trl, own in zip(costs["trl"], costs["lightrl"], strict=True))
    # each round of sort6 has a seed of its own, and with it another way to go
    ratio = statistics.median(ratios) if name == "sort6" else medians["trl"] / medians["lightrl"]
    said: dict[str, Any] = {
        f"ratio_{name}": round(ratio, 2),
        f"spread_{name}": [round(ratios[0], 2), round(ratios[-1], 2)],
        f"cost_{name}": {side: round(medians[side], 2) for side in SIDES},
    }
    if name == "logprobs":
        extra = {side: statistics.median(run["extra_gb"] for run in found[side]) for side in SIDES}
        return said | {"logprobs_extra_gb": round(extra["lightrl"], 3), "logprobs_extra_gb_trl": round(extra["trl"], 3)}
    peaks = {side: statistics.median(run["peak_gb"] for run in found[side]) for side in SIDES}
    said |= {f"peak_gb_{name}": {side: round(peaks[side], 2) for side in SIDES}}
    said |= {f"rss_ratio_{name}": round(peaks["lightrl"] / peaks["trl"], 2)}
    if name == "sort6":
        return said | {"steps_sort6": {side: statistics.median(len(run["steps"]) for run in found[side]) for side in SIDES}}
    spent = {side: [phases(name, run) for run in found[side]] for side in SIDES}
    middle = {side: {phase: round(statistics.median(run[phase] for run in spent[side]), 1) for phase in spent[side][0]} for side in SIDES}
    said |= {f"phases_ms_{name}": middle}
    if name == "overhead":
        said |= {"overhead_ms": middle["lightrl"]["own"], "overhead_ms_trl": middle["trl"]["own"]}
    if name in FIRST_ROLLOUT:
        first = {side: statistics.median(run["steps"][0]["first_rollout_s"] for run in found[side]) for side in SIDES}
        key = FIRST_ROLLOUT[name]
        said |= {key: round(first["lightrl"], 1), f"{key}_trl": round(first["trl"], 1)}
    return said


def table(summary: dict[str, Any], names: Sequence[str]) -> str:
    """The cases as a table in Markdown."""
    columns = ["case", "TRL", "lightrl", "times faster (least to largest)", "peak memory, GB: TRL, lightrl"]
    columns.append(f"a step, ms: {' / '.join(PHASES)} / own")
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    names = [name for name in names if f"cost_{name}" in summary]
    for name in names:
        unit = " s" if name in ("sort6", "logprobs") else " us a pair" if name in EXAMPLES and EXAMPLES[name].in_pairs else " us a token"
        costs, (least, most) = summary[f"cost_{name}"], summary[f"spread_{name}"]
        peaks, spent = summary.get(f"peak_gb_{name}", {}), summary.get(f"phases_ms_{name}", {})
        steps = "; ".join(f"{side} " + " / ".join(f"{value:.0f}" for value in spent[side].values()) for side in spent)
        ratio = f"{summary[f'ratio_{name}']:.2f} ({least:.2f} to {most:.2f})"
        memory = ", ".join(f"{peak:.2f}" for peak in peaks.values())
        lines.append(f"| {name} | {costs['trl']:g}{unit} | {costs['lightrl']:g}{unit} | {ratio} | {memory} | {steps} |")
    return "\n".join(lines) + "\n"


def plan(bench: Bench, rounds: dict[str, int]) -> str:
    """What will be measured, what has been, and how long the rest will take."""
    left = {name: sum(not bench.measured(name, side, i) for side in SIDES for i in range(count)) for name, count in rounds.items()}
    lines = [f"{name}: {count} rounds, {2 * count - left[name]} of {2 * count} runs there" for name, count in rounds.items()]
    minutes = sum(EXPECTED_S[name] * runs / 2 for name, runs in left.items()) / 60
    return "\n".join([*lines, f"about {minutes:.0f} minutes on an idle core; typed again, the command goes on where it was stopped"])


def machine() -> str:
    """The processor, its cores and the versions."""
    model = next((line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), "")
    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "lightning"))
    return f"{model or platform.machine()}, {os.cpu_count()} cores, of which one is used; Python {platform.python_version()}, {versions}"


def missed(summary: dict[str, Any]) -> list[str]:
    """The figures that are not as wanted, in words."""
    said = []
    for name, (wanted, better) in WANTED.items():
        if name in summary and better(summary[name], wanted) != summary[name]:
            said.append(f"{name} is {summary[name]}, and should be at {'least' if better is max else 'most'} {wanted}")
    return said


def options(title: str | None, cases: Sequence[str], out: Path) -> argparse.ArgumentParser:
    """The command line of a comparison."""
    parser = argparse.ArgumentParser(description=title, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="interleaved runs of each side")
    parser.add_argument("--only", nargs="+", choices=cases, default=cases, metavar="CASE", help=f"of {', '.join(cases)}")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), help="on which everything runs")
    parser.add_argument("--out", type=Path, default=out, help="folder for everything that is written")
    for side, name in (("trl", "TRL"), ("lightrl", "lightrl")):
        parser.add_argument(f"--{side}", type=Path, help=f"environment of {name}, taken as it is [{MADE / side}, which is made]")
    return parser


def bench_of(arguments: argparse.Namespace, model: Path = Path()) -> Bench:
    """The comparison that a command line describes; environments that it does not name are made, unless they are there.

    Args:
        arguments: of `options`.
        model: the GGUF file of the cases with a real policy.
    """
    out, environments = arguments.out.absolute(), dict[str, Path]()
    out.mkdir(parents=True, exist_ok=True)
    for side, requirements in zip(SIDES, (TRL, OWN), strict=True):
        named = getattr(arguments, side)
        environments[side] = (named or MADE / side).absolute()
        if named is None:
            make_environment(environments[side], requirements)
    return Bench(out, environments["trl"], environments["lightrl"], frozenset({arguments.core}), model)


def run_round(bench: Bench, names: Sequence[str], number: int, found: dict[str, Found]) -> None:
    """Run cases on both sides, one after the other, and add what the meter wrote."""
    for name in names:
        for side in SIDES if number % 2 else reversed(SIDES):
            found[name][side].append(bench.measure(name, side, number))
        trl, own = (cost(name, found[name][side][-1]) for side in SIDES)
        print(f"round {number + 1}: {name}: TRL {trl:.4g}, lightrl {own:.4g}: {trl / own:.2f} times", flush=True)


def write_figures(out: Path, said: dict[str, Any], rounds: dict[str, int]) -> dict[str, Any]:
    """Print and write the summary: what has been measured, and what earlier commands have measured in the same folder."""
    written = out / "summary.json"
    earlier = json.loads(written.read_text()) if written.exists() else {}
    summary: dict[str, Any] = earlier | said | {"rounds": earlier.get("rounds", {}) | rounds, "machine": machine()}
    write_summary(out, summary)
    return summary


def main() -> int:
    """Measure, print, write; 1 if a figure is not as wanted."""
    arguments = options(__doc__, CASES, MADE).parse_args()
    bench = bench_of(arguments)
    rounds = {name: min(arguments.rounds, ROUNDS.get(name, arguments.rounds)) for name in arguments.only}
    print(plan(bench, rounds), flush=True)
    found: dict[str, Found] = {name: {side: [] for side in SIDES} for name in arguments.only}
    for number in range(arguments.rounds):
        run_round(bench, [name for name in arguments.only if number < rounds[name]], number, found)
    said = {key: value for name in arguments.only for key, value in figures(name, found[name]).items()}
    summary = write_figures(bench.out, said, rounds)
    (bench.out / "table.md").write_text(table(summary, CASES))
    print(table(summary, CASES))
    print("\n".join(missed(summary)) or "every figure is as wanted")
    return int(bool(missed(summary)))


if __name__ == "__main__":
    sys.exit(main())
