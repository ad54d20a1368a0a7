"""Compares learning from given completions with learning from sampled ones.

Run `OMP_NUM_THREADS=1 python -m benchmarks.learning.preferences`.

sft_sort.yaml trains one policy per seed, from which all runs start. configs/{dpo,ipo,simpo,orpo,kto}_sort.yaml train it on given
right and wrong answers, and must raise its accuracy on held-out prompts, sampled at temperature 1, by 0.15 within a minute.
grpo_sort.yaml and ppo_sort.yaml train it on its own completions with the reward of the task, and
ppo_reward_model_sort.yaml with the reward of a model that has learned from the same comparisons. Every config
runs to its end. The table of all runs and the means over seeds are also written as results.json in the output folder, beside a log of
each run.

At this size the memory of a process is mostly that of its libraries; what grows with a policy is the number of models.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import yaml

from benchmarks import config_file
from benchmarks.learning.learn import ACCURACY, events, fit, resolved, seeded, warm_start
from lightrl import LabelledObjective
from lightrl.config.build.builder import Builder

GAIN, WITHIN = 0.15, 60.0
OFFLINE = ("dpo", "ipo", "simpo", "orpo", "kto", "apo_zero", "exo", "nca", "sppo", "discopop")
OFFLINE += ("jensen_shannon_dpo", "length_normalized_dpo", "bco", "aot", "aot_unpaired", "apo_down", "forward_kl_dpo")
ONLINE = ("grpo", "ppo", "ppo_reward_model")
REWARD_MODEL = config_file("reward_model_sort")


@dataclass
class Result:
    """The result of one run."""

    method: str
    seed: int
    start: float
    """Held-out accuracy before the first step."""
    final: float
    """At the last evaluation."""
    gained: float | None
    """Seconds to the first evaluation with 0.15 more than at the start, evaluations included; None: there was none."""
    seconds: float
    """Of the whole process, its start and its evaluations included, and of a reward model's training if it needs one."""
    cpu_seconds: float
    """That it computed."""
    given: int
    """Completions that it was given, counted as often as it read them."""
    sampled: int
    """Completions that it sampled to learn from."""
    models: list[str]
    """That were in memory."""
    peak_mib: float
    """Largest resident memory of the process."""

    @property
    def falls_short(self) -> bool:
        """It was to gain on given completions and did not, or not in time."""
        return self.method in OFFLINE and (self.gained is None or self.gained > WITHIN)


@dataclass
class Run:
    """A finished process."""

    folder: Path
    """Where it logged."""
    seconds: float
    """Of wall-clock time."""
    cpu_seconds: float
    """Of user and system time."""
    peak_mib: float
    """Largest resident memory."""


def main() -> int:
    """Run what was asked for; 1 if an objective on given completions fell short."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", nargs="+", choices=OFFLINE + ONLINE, default=OFFLINE + ONLINE, metavar="NAME", help=f"of: {OFFLINE + ONLINE}"
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[0], help="of weights, data order and sampling")
    parser.add_argument("--out", type=Path, default=Path("runs/preferences"), help="folder for logs and results")
    arguments = parser.parse_args()
    results = []
    print(HEADER)
    for seed in arguments.seeds:
        policy = warm_start(seed, arguments.out)
        for method in arguments.only:
            results.append(train(method, seed, policy, arguments.out))
            print(line(results[-1]), flush=True)
    return report(results, arguments.out)


def train(method: str, seed: int, policy: Path, out: Path) -> Result:
    """Train by one method from the warm start."""
    config = config_file(f"{method}_sort")
    words: list[object] = ["--config", config, *seeded(seed), "--model.policy.path", policy]
    model, before = resolved(config), list[Run]()
    words += ["--model.seed", seed] if "seed" in model.takes else []
    if method == "ppo_reward_model":
        before.append(measured(["--config", REWARD_MODEL, "--seed_everything", seed, "--data.seed", seed], out / f"reward_model-{seed}"))
        folder = before[0].folder / "reward_model"
        words += ["--model.rewards.learned.path", folder, "--model.algorithm.critic.path", folder]
    run = measured(words, out / f"{method}-{seed}")
    accuracy = events(run.folder, ACCURACY)
    gained = [when - accuracy[0][0] for when, value in accuracy if value >= accuracy[0][1] + GAIN]
    given, sampled = completions(config, run.folder)
    return Result(
        method=method,
        seed=seed,
        start=accuracy[0][1],
        final=accuracy[-1][1],
        gained=gained[0] if gained else None,
        seconds=sum(each.seconds for each in [run, *before]),
        cpu_seconds=sum(each.cpu_seconds for each in [run, *before]),
        given=given + sum(completions(REWARD_MODEL, each.folder)[0] for each in before),
        sampled=sampled,
        models=models(model),
        peak_mib=max(each.peak_mib for each in [run, *before]),
    )


def completions(config: Path, run: Path) -> tuple[int, int]:
    """How many a run was given, and how many it sampled to learn from."""
    model = resolved(config)
    if "algorithm" in model.takes:
        group = model.value("algorithm").value("sampler").value("group_size")
        return 0, len(events(run, "reward")) * model.value("prompts_per_rollout") * group
    labelled = "objective" in model.takes and issubclass(model.value("objective").cls, LabelledObjective)
    steps = yaml.safe_load(config.read_text())["trainer"]["max_steps"]
    return steps * model.value("batch_size") * (1 if labelled else 2), 0


def models(model: Any) -> list[str]:
    """The models that a run holds: each is as large as the policy, but for a head."""
    if "algorithm" not in model.takes:
        return ["policy", *(["reference"] if "ref_logprobs" in Builder().build(model.value("objective"), "model.objective").needs else [])]
    algorithm = model.value("algorithm")
    held = ["policy", *(["reference"] if algorithm.value("kl") is not None else [])]
    if algorithm.value("critic") is not None:
        held.append("critic" if algorithm.value("critic").cls.__name__ == "ValueModel" else "value head")
    return held + ["reward model" for reward in model.value("rewards").values() if reward.cls.__name__ == "RewardModel"]


def measured(words: list[object], folder: Path) -> Run:
    """Run `lightrl fit` as the only child of a process of its own, whose account it then is."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
        return alone.submit(_measured, words, folder).result()


def _measured(words: list[object], folder: Path) -> Run:
    started = time.perf_counter()
    run = fit(words, folder)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Linux gives KiB
    return Run(run, time.perf_counter() - started, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


HEADER = f"{'method':<18}{'seed':>4}{'start':>7}{'final':>7}{f's to +{GAIN}':>10}{'s':>6}{'CPU s':>7}"
HEADER += f"{'given':>8}{'sampled':>9}{'peak MiB':>10}  models"


def line(result: Result) -> str:
    """One row of the table."""
    gained = "-" if result.gained is None else f"{result.gained:.0f}"
    numbers = f"{result.start:>7.3f}{result.final:>7.3f}{gained:>10}{result.seconds:>6.0f}{result.cpu_seconds:>7.0f}{result.given:>8}"
    return f"{result.method:<18}{result.seed:>4}{numbers}{result.sampled:>9}{result.peak_mib:>10.0f}  {', '.join(result.models)}"


def summary(results: list[Result]) -> dict[str, Any]:
    """Means of one method over seeds, and the spread of its accuracy."""
    finals = [result.final for result in results]
    means = {name: statistics.mean(getattr(r, name) for r in results) for name in ("start", "seconds", "cpu_seconds", "given", "sampled")}
    spread = statistics.stdev(finals) if len(finals) > 1 else None
    return {
        "method": results[0].method, "seeds": len(results), "accuracy": statistics.mean(finals), "accuracy_std": spread, **means,
        "peak_mib": max(result.peak_mib for result in results), "models": results[0].models,
    }  # fmt: skip


def report(results: list[Result], out: Path) -> int:
    """Print the means and what fell short, write everything, and return the exit status."""
    summaries = [summary([r for r in results if r.method == method]) for method in dict.fromkeys(r.method for r in results)]
    print(f"\n{'method':<18}{'seeds':>6}{'start':>7}{'accuracy':>17}{'given':>8}{'sampled':>9}{'s':>6}{'CPU s':>7}{'peak MiB':>10}  models")
    for row in summaries:
        spread = "" if row["accuracy_std"] is None else f" +- {row['accuracy_std']:.3f}"
        used = f"{row['given']:>8.0f}{row['sampled']:>9.0f}{row['seconds']:>6.0f}{row['cpu_seconds']:>7.0f}{row['peak_mib']:>10.0f}"
        accuracy = f"{row['start']:>7.3f}{row['accuracy']:>8.3f}{spread:<9}"
        print(f"{row['method']:<18}{row['seeds']:>6}{accuracy}{used}  {', '.join(row['models'])}")
    short = [result for result in results if result.falls_short]
    for result in short:
        when = "never" if result.gained is None else f"after {result.gained:.0f} s"
        print(f"{result.method}, seed {result.seed}: {GAIN} more than {result.start:.3f} {when}, wanted within {WITHIN:.0f} s")
    file = out / "results.json"
    file.write_text(json.dumps({"runs": [asdict(r) for r in results], "means": summaries}, indent=2) + "\n")
    print(f"{len(results)} runs, {len(short)} fell short. Written: {file}")
    return int(bool(short))


if __name__ == "__main__":
    sys.exit(main())
