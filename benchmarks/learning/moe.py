"""Compares GRPO, GRPO with routing replay, and GSPO on a mixture of experts.

Run `make learn TASK=moe`.
moe_start.yaml trains one tiny Qwen3-MoE per seed until it sorts three in ten of the prompts of `sort6`. From it start
moe_grpo.yaml, moe_replay.yaml and moe_gspo.yaml, unchanged: 300 rollouts of 256 completions, four optimizer steps
on each. The table has their held-out accuracy, and the share of tokens that the policy of a step sends to other experts than the policy
that sampled. Runs that are in the output folder already are not made again.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean

from benchmarks import config_file
from benchmarks.learning.learn import ACCURACY, events, fit, seeded

RUNS = {"moe_grpo": "GRPO", "moe_replay": "GRPO + routing replay", "moe_gspo": "GSPO"}
"""The configs, and what they are called in the table."""
LAST = 3
"""Evaluations whose mean is the accuracy at the end."""
WANTED = 0.85
"""Accuracy up to which rollouts are counted."""


@dataclass
class Result:
    """The result of one run."""

    config: str
    seed: int
    accuracy: list[float]
    """Held-out, at each evaluation; the first is that of the start."""
    between: int
    """Rollouts between two evaluations."""
    tokens: float
    """Mean share of tokens that a step's policy routes differently."""
    experts: float
    """Mean share of choices of an expert that differ."""
    clipped: float
    """Mean share of tokens on which the clip acted."""

    @property
    def final(self) -> float:
        """The accuracy at the end."""
        return mean(self.accuracy[-LAST:])

    @property
    def rollouts(self) -> int | None:
        """Rollouts until `WANTED` was first reached; None: never."""
        return next((i * self.between for i, found in enumerate(self.accuracy) if found >= WANTED), None)


def main() -> None:
    """Make the runs that are missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=RUNS, default=list(RUNS), help="the configs")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2], help="of weights, data order and sampling")
    parser.add_argument("--rollouts", type=int, default=300, help="of each run")
    parser.add_argument("--out", type=Path, default=Path("runs/moe"), help="folder for logs, policies and results")
    arguments = parser.parse_args()
    plan = [(name, seed) for seed in arguments.seeds for name in arguments.only]
    missing = [(name, seed) for name, seed in plan if not (arguments.out / f"{name}-{seed}" / "result.json").exists()]
    print(f"{len(plan)} runs of {arguments.rollouts} rollouts, of which {len(missing)} are to be made, some minutes each:", flush=True)
    print("".join(f"  {name}, seed {seed}\n" for name, seed in missing), end="", flush=True)
    for name, seed in missing:
        found = train(name, seed, start(seed, arguments.out), arguments.rollouts, arguments.out / f"{name}-{seed}")
        (arguments.out / f"{name}-{seed}" / "result.json").write_text(json.dumps(asdict(found)) + "\n")
        print(f"{name}, seed {seed}: {found.accuracy[0]:.3f} to {found.final:.3f}", flush=True)
    print(table([Result(**json.loads((arguments.out / f"{name}-{seed}" / "result.json").read_text())) for name, seed in plan]))


def start(seed: int, out: Path) -> Path:
    """Folder of the policy that the runs of a seed begin with."""
    folder = out / f"start-{seed}"
    if not (made := sorted(folder.glob("version_*/policy"))):
        words = ["--config", config_file("moe_start"), *seeded(seed), "--model.policy.seed", seed, "--data.validation_size", 1024]
        made = [fit(words, folder) / "policy"]
    return made[-1]


def train(name: str, seed: int, policy: Path, rollouts: int, folder: Path) -> Result:
    """Train with one config."""
    words = ["--config", config_file(name), *seeded(seed), "--model.seed", seed, "--model.policy.path", policy]
    words += ["--rollouts", rollouts, "--trainer.enable_checkpointing", "false"]
    run = fit([*words, "--model.lr_scheduler.total_steps", 4 * rollouts], folder)
    accuracy, steps = [value for _, value in events(run, ACCURACY)], events(run, "rerouted/tokens")
    tags = ("rerouted/tokens", "rerouted/experts", "clip_ratio/region")
    tokens, experts, clipped = (mean(value for _, value in events(run, tag)) for tag in tags)
    return Result(name, seed, accuracy, len(steps) // (len(accuracy) - 1), tokens, experts, clipped)


def table(results: list[Result]) -> str:
    """The runs of each config in a row."""
    lines = [
        f"| run | at start | at the end, per seed | mean | rollouts to {WANTED} | rerouted tokens | rerouted choices | clipped tokens |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in (name for name in RUNS if any(result.config == name for result in results)):
        runs = [result for result in results if result.config == name]
        first = mean(run.accuracy[0] for run in runs)
        ends = ", ".join(f"{run.final:.3f}" for run in runs)
        reached = ", ".join("-" if run.rollouts is None else str(run.rollouts) for run in runs)
        columns = [[run.tokens for run in runs], [run.experts for run in runs], [run.clipped for run in runs]]
        shares = " | ".join(", ".join(f"{share:.1%}" for share in column) for column in columns)
        lines.append(f"| {RUNS[name]} | {first:.3f} | {ends} | {mean(run.final for run in runs):.3f} | {reached} | {shares} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
