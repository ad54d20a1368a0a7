"""Compares on-policy distillation with GRPO on `sort6`: `make learn TASK=distill`.

sft_sort.yaml trains a teacher of a million parameters to 0.95 of right answers, and one student of 133K per seed to 0.3. From each
student start GRPO (grpo_sort.yaml) and distillation (distill_sort.yaml, gkd_sort.yaml), unchanged but for how often
they are evaluated and that they end at 0.85 of the teacher's accuracy on 1,024 held-out prompts. The table counts the completions that the
student has sampled until then, and is also written as results.json.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import yaml

from benchmarks import config_file
from benchmarks.learning.learn import ACCURACY, algorithm_of, events, fit, resolved, seeded, warm_start

SHARE = 0.85
"""Of the teacher's accuracy, at which a run ends."""
EVALUATE_EVERY = 1280
"""Completions: five rollouts of GRPO."""
NAMES = ("grpo", "distill", "gkd")
TAUGHT = frozenset({"distill", "gkd"})
"""Those that learn from another policy."""


@dataclass
class Result:
    """The result of one run."""

    config: str
    seed: int
    start: float
    """Held-out accuracy before the first step."""
    final: float
    """At the last evaluation."""
    completions: int
    """Until the threshold, or all."""
    reached: bool


def main() -> None:
    """Run what was asked for, and print the table."""
    compare(NAMES, warm_start, __doc__ or "", Path("runs/distill"))


def compare(names: Sequence[str], start: Callable[[int, Path], Path], about: str, out: Path) -> None:
    """Train each config from the start of each seed, by the words of the command line, and print the table.

    Args:
        names: of the configs, without `_sort`.
        start: gives the folder of the policy that a seed starts from, for a seed and the folder of all runs.
        about: what `--help` says.
        out: folder of all runs, unless another one is named.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=names, default=list(names), help="the configs")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2], help="of weights, data order and sampling")
    parser.add_argument("--out", type=Path, default=out, help="folder for logs, policies and results")
    parser.add_argument("--teacher", type=Path, help="the run of a teacher that was trained before, in place of a new one")
    arguments = parser.parse_args()
    teacher = arguments.teacher or train_teacher(arguments.out)
    accuracy = events(teacher, ACCURACY)[-1][1]
    print(f"teacher: accuracy {accuracy:.3f}, so that runs end at {SHARE * accuracy:.3f}", flush=True)
    for seed in arguments.seeds:
        student = start(seed, arguments.out)
        for name in arguments.only:
            result = train(name, seed, student, teacher / "policy", SHARE * accuracy, arguments.out)
            print(asdict(result), flush=True)
            (arguments.out / f"{name}-{seed}" / "result.json").write_text(json.dumps(asdict(result)) + "\n")
    report(names, accuracy, arguments.out)


def train_teacher(out: Path) -> Path:
    """The run of a policy of 1.06M parameters that supervised fine-tuning has taught the task."""
    out.mkdir(parents=True, exist_ok=True)
    content = {
        "trainer": {
            "max_steps": 3000,
            "val_check_interval": 50,
            "callbacks": [stop_at(0.95), {"class_path": "lightrl.callbacks.export_policy.ExportPolicy"}],
        },
        "model": {"init_args": {"policy": {"init_args": {"hidden": 128, "layers": 4}}, "optimizer": {"init_args": {"lr": 0.002}}}},
    }
    return fit(
        [
            "--config",
            config_file("sft_sort"),
            "--config",
            written(content, out / "teacher.yaml"),
            *seeded(0),
            "--data.validation_size",
            1024,
        ],
        out / "teacher",
    )


def train(name: str, seed: int, student: Path, teacher: Path, threshold: float, out: Path) -> Result:
    """Train one config from the student."""
    config, folder = config_file(f"{name}_sort"), out / f"{name}-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    per_rollout = resolved(config).value("prompts_per_rollout") * algorithm_of(config).value("sampler").value("group_size")
    every = EVALUATE_EVERY // per_rollout
    content = {"trainer": {"check_val_every_n_epoch": every, "enable_checkpointing": False, "callbacks": [stop_at(threshold)]}}
    words = ["--config", config, "--config", written(content, folder / "overrides.yaml"), *seeded(seed)]
    words += ["--model.policy.path", student, "--model.seed", seed]
    if name in TAUGHT:
        words += ["--model.algorithm.teacher.policy.path", teacher]
    accuracies = [value for _, value in events(fit(words, folder), ACCURACY)]
    completions = (len(accuracies) - 1) * every * per_rollout
    return Result(f"{name}_sort", seed, accuracies[0], accuracies[-1], completions, accuracies[-1] >= threshold)


def stop_at(threshold: float) -> dict[str, Any]:
    """The callback that ends a run at an accuracy."""
    stop = {"monitor": ACCURACY, "mode": "max", "stopping_threshold": threshold, "patience": 10**6, "check_on_train_epoch_end": False}
    return {"class_path": "lightning.pytorch.callbacks.EarlyStopping", "init_args": stop}


def written(content: dict[str, Any], file: Path) -> Path:
    """A config in a file."""
    file.write_text(yaml.safe_dump(content))
    return file


def report(known: Sequence[str], teacher: float, out: Path) -> None:
    """Print the table of all runs in the folder, and write them."""
    results = [Result(**json.loads(file.read_text())) for file in sorted(out.glob("*-*/result.json"))]
    names = [f"{name}_sort" for name in known if any(result.config == f"{name}_sort" for result in results)]
    baseline = mean([r.completions for r in results if r.config == "grpo_sort"] or [float("nan")])
    lines = [
        "| config | accuracy at start | at end | completions per seed | mean | GRPO's mean divided by it |",
        "|---|---|---|---|---|---|",
    ]
    for name in names:
        runs = [result for result in results if result.config == name]
        counts = ", ".join(f"{run.completions:,}" + ("" if run.reached else " (not reached)") for run in runs)
        total = mean(run.completions for run in runs)
        start, end = mean(run.start for run in runs), mean(run.final for run in runs)
        lines.append(f"| `{name}` | {start:.3f} | {end:.3f} | {counts} | {total:,.0f} | {baseline / total:.1f} |")
    print("\n".join(lines))
    file = out / "results.json"
    file.write_text(json.dumps({"teacher": teacher, "runs": [asdict(result) for result in results]}, indent=2) + "\n")
    print(f"Written: {file}")


if __name__ == "__main__":
    main()
