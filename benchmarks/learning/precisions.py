"""Trains the same policy under every row of the README's table of precisions.

Run `OMP_NUM_THREADS=1 python -m benchmarks.learning.precisions`.
`sort` is grpo_sort.yaml from its warm start; `capitals` asks a chat model (`--model FOLDER`) for capitals, 6 prompts x 8
completions of at most 12 tokens, at the rate 2e-5. Results are added to results.jsonl in the output folder as they come, and what stands
there is not run again. On a processor without instructions for bfloat16, its products are made of float32 numbers and rounded, which
gives the same to the last bit but for the order of sums, and is several times as fast.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
import yaml

from benchmarks import config_file
from benchmarks.learning.capitals import write
from benchmarks.learning.learn import events, seeded, warm_start
from benchmarks.logged_process import run_logged

BFLOAT16 = {"precision": "bf16-true", "dtype": "bfloat16"}
ROWS: dict[str, dict[str, Any]] = {
    "32-true": {"precision": "32-true", "dtype": "float32"},
    "32-true, rollouts in bfloat16": {"precision": "32-true", "dtype": "float32", "rollouts": "bfloat16"},
    "bf16-mixed": {"precision": "bf16-mixed", "dtype": "float32"},
    "bf16-true": BFLOAT16,
    "bf16-true rollout": BFLOAT16 | {"old_logprobs": "rollout"},
    "lora 32-true": {"precision": "32-true", "dtype": "float32", "lora": True},
    "lora bf16-true": BFLOAT16 | {"lora": True},
}
ACCURACY = {"sort": "val/rewards/correct/mean", "capitals": "val/rewards/contains/mean"}
EVALUATE_EVERY = {"sort": 50, "capitals": 10}
"""Rollouts."""


def main() -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=ACCURACY, default=["sort"])
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS), metavar="ROW", help=f"of: {', '.join(ROWS)}")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2], help="of weights, data order and sampling")
    parser.add_argument("--rollouts", type=int, default=30, help="of the task capitals")
    parser.add_argument("--model", type=Path, help="folder of the chat model of the task capitals")
    parser.add_argument("--out", type=Path, default=Path("runs/precisions"), help="folder for logs and results")
    arguments = parser.parse_args()
    results = arguments.out / "results.jsonl"
    arguments.out.mkdir(parents=True, exist_ok=True)
    for seed in arguments.seeds:
        for task in arguments.tasks:
            for row in arguments.rows:
                if not any((r["task"], r["row"], r["seed"]) == (task, row, seed) for r in read(results)):
                    found = train(task, row, seed, arguments)
                    with results.open("a") as file:
                        file.write(json.dumps(found) + "\n")
                    print(found, flush=True)
    table(read(results))


def read(results: Path) -> list[dict[str, Any]]:
    """The results so far."""
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def train(task: str, row: str, seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """One run: held-out accuracy at each evaluation, deviation of the ratio before the first step, alarms, seconds."""
    folder: Path = arguments.out / f"{task}-{row.replace(',', '').replace(' ', '-')}-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    config, settings = (sort if task == "sort" else capitals)(ROWS[row], seed, arguments)
    (folder / "row.yaml").write_text(yaml.safe_dump(settings))
    own = ["--config", folder / "row.yaml"]
    words: list[object] = ["-m", __spec__.name, "--child", "fit", *(["--config", config] if config else []), *own]
    logger = "lightning.pytorch.loggers.TensorBoardLogger"
    logged = ["--trainer.logger", logger, "--trainer.logger.save_dir", folder.parent, "--trainer.logger.name", folder.name]
    words += [*seeded(seed), "--model.seed", seed, *logged, "--trainer.enable_progress_bar", "false"]
    started = time.perf_counter()
    run_logged(words, folder / "output.txt")
    seconds = time.perf_counter() - started
    run = max(folder.glob("version_*"), key=lambda version: int(version.name.split("_")[1]))
    said = (folder / "output.txt").read_text()
    return {
        "task": task,
        "row": row,
        "seed": seed,
        "accuracy": [round(value, 4) for _, value in events(run, ACCURACY[task])],
        "first_pass": round(max(value for _, value in events(run, "ratio/first_pass_deviation")), 4),
        "alarms": said.count("first_pass_ratio"),
        "seconds": round(seconds),
    }


def sort(row: dict[str, Any], seed: int, arguments: argparse.Namespace) -> tuple[Path, dict[str, Any]]:
    """The config of sort6, and what the row changes in it."""
    start = {"class_path": "PretrainedPolicy", "init_args": {"path": str(policy_of(seed, arguments.out)), "dtype": row["dtype"]}}
    changed = settings(row, start, 8)
    if "lora" in row:
        changed["model"]["algorithm"] = {"kl": None}
    changed["trainer"] |= {"check_val_every_n_epoch": EVALUATE_EVERY["sort"]}
    return config_file("grpo_lora_sort" if "lora" in row else "grpo_sort"), changed


def policy_of(seed: int, out: Path) -> Path:
    """The warm start of a seed, made once."""
    made = sorted((out / f"sft-{seed}").glob("version_*/policy"))
    return made[-1] if made else warm_start(seed, out)


def capitals(row: dict[str, Any], seed: int, arguments: argparse.Namespace) -> tuple[None, dict[str, Any]]:
    """The whole config of the capitals."""
    files = write(arguments.out / "capitals")
    start = {"class_path": "PretrainedPolicy", "init_args": {"path": str(arguments.model.resolve()), "dtype": row["dtype"]}}
    config = settings(row, start, 16)
    config["trainer"] |= {"accelerator": "cpu", "devices": 1, "check_val_every_n_epoch": EVALUATE_EVERY["capitals"]}
    init: dict[str, Any] = {"sampler": {"class_path": "GroupSampler", "init_args": {"group_size": 8}}, "kl": None}
    init |= config["model"].pop("algorithm", {})
    rows = {part: {"class_path": "JsonLines", "init_args": {"path": str(file), "answer": "answer"}} for part, file in files.items()}
    return None, config | {
        "rollouts": arguments.rollouts,
        "data": rows,
        "model": config["model"]
        | {
            "algorithm": {"class_path": "GRPO", "init_args": init},
            "rewards": {
                "contains": {"path": "benchmarks.learning.capitals.contains"},
                "alone": {"path": "benchmarks.learning.capitals.alone", "weight": 0.5},
            },
            "engine": {"class_path": "TransformersEngine", "init_args": {"max_new_tokens": 12} | config["model"].get("engine", {})},
            "evaluation": {"samples": 16},
            "prompts_per_rollout": 6,
            "micro_batch_tokens": 1024,
            "optimizer": {
                "class_path": "torch.optim.AdamW",
                "init_args": {"lr": 2e-4 if "lora" in row else 2e-5, "weight_decay": 0.0},
            },
        },
    }


def settings(row: dict[str, Any], start: dict[str, Any], rank: int) -> dict[str, Any]:
    """What a row sets in any config."""
    lora = {"class_path": "LoraPolicy", "init_args": {"base": start, "r": rank, "alpha": 2 * rank}}
    model: dict[str, Any] = {"policy": lora if "lora" in row else start}
    if "old_logprobs" in row:
        model["algorithm"] = {"old_logprobs": row["old_logprobs"]}
    if "rollouts" in row:
        model["engine"] = {"dtype": row["rollouts"]}
    return {"trainer": {"precision": row["precision"], "enable_checkpointing": False}, "model": model}


def table(results: list[dict[str, Any]]) -> None:
    """Print the accuracy at the end by task, row and seed."""
    print(f"{'task':<10}{'row':<30}{'seed':>4}{'start':>7}{'final':>7}{'best':>7}{'max|r-1|':>10}{'alarms':>8}{'s':>6}")
    for r in sorted(results, key=lambda r: (r["task"], list(ROWS).index(r["row"]), r["seed"])):
        start, final, best = r["accuracy"][0], r["accuracy"][-1], max(r["accuracy"])
        numbers = f"{start:>7.3f}{final:>7.3f}{best:>7.3f}{r['first_pass']:>10.4f}{r['alarms']:>8}{r['seconds']:>6}"
        print(f"{r['task']:<10}{r['row']:<30}{r['seed']:>4}{numbers}")


def child(words: list[str]) -> int:
    """`lightrl`, with products of bfloat16 that are fast on this processor."""
    from lightrl.cli import main as lightrl

    known = "avx512_bf16" in Path("/proc/cpuinfo").read_text()
    library = None if known else torch.library.Library("aten", "IMPL")
    if library is not None:
        for name in ("mm", "bmm"):
            library.impl(name, product(getattr(torch, name)), "CPU")
    return lightrl(words)


def product(of: Any) -> Any:
    """A product of two matrices; of bfloat16 ones, that of float32 numbers, rounded."""

    def multiplied(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        halves = a.dtype == torch.bfloat16
        a, b = (a.float(), b.float()) if halves else (a, b)
        # the form with `out` is another operator, which nothing has replaced
        out = of(a, b, out=a.new_empty(*a.shape[:-1], b.shape[-1]))
        return out.bfloat16() if halves else out

    return multiplied


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if sys.argv[1:2] == ["--child"]:
        sys.exit(child(sys.argv[2:]))
    main()
