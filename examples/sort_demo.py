"""Warm-start a tiny policy by SFT on `sort6`, train it with GRPO, and write what came of it.

    python examples/sort_demo.py --seed 0 --out runs/demo

Both runs are the command line's own: sft_sort and grpo_sort. The table is also written as
`summary.json` in the output folder, with the reward curve beside it as `reward.png`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path


def main() -> None:
    """Run the demonstration."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of weights, data order and sampling")
    parser.add_argument("--out", type=Path, default=Path("runs/demo"), help="folder for logs, policies and the summary")
    arguments = parser.parse_args()
    started = time.perf_counter()
    train(arguments.seed, arguments.out)
    report(arguments.seed, arguments.out, time.perf_counter() - started)


def train(seed: int, out: Path) -> None:
    """SFT, then GRPO from the policy it wrote."""
    seeded = ["--seed_everything", str(seed), "--data.seed", str(seed)]
    sft, grpo = out / "sft", out / "grpo"
    # with the default folder it is where every config of configs/toys/online looks for it
    policy = sft / "policy"
    lightrl(
        "fit", "--config", "sft_sort", *seeded, *logged_to(sft),
        "--model.policy.seed", seed, "--model.engine.seed", seed, "--data.validation_size", 1024,
        # of the last of the config's callbacks, which writes the policy
        "--trainer.callbacks.folder", policy,
    )  # fmt: skip
    lightrl(
        "fit", "--config", "grpo_sort", *seeded, *logged_to(grpo),
        "--model.policy.path", policy, "--model.engine.seed", seed, "--model.seed", seed,
    )  # fmt: skip


def lightrl(*arguments: object) -> None:
    """Run the command line, and stop with its status if it fails."""
    command = [sys.executable, "-m", "lightrl", *map(str, arguments)]
    print("$ lightrl " + " ".join(command[3:]), flush=True)
    status = subprocess.run(command, check=False).returncode
    if status:
        sys.exit(status)


def logged_to(folder: Path) -> list[object]:
    """Options that put the log of a run into a folder."""
    logger = "lightning.pytorch.loggers.TensorBoardLogger"
    return ["--trainer.logger", logger, "--trainer.logger.save_dir", folder.parent, "--trainer.logger.name", folder.name]


def latest(folder: Path) -> Path:
    """The newest version of a run."""
    return max(folder.glob("version_*"), key=lambda version: int(version.name.split("_")[1]))


def report(seed: int, out: Path, seconds: float) -> None:
    """Print the table, and write it and the curve."""
    curve = scalars(latest(out / "grpo"), "reward")
    accuracy = scalars(latest(out / "grpo"), "val/rewards/correct/mean")
    summary = {
        "seed": seed,
        "start_accuracy": round(accuracy[0][1], 4),
        "final_accuracy": round(accuracy[-1][1], 4),
        "train_seconds": round(seconds, 1),
        "rollouts": len(curve),
    }
    (out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    draw(curve, accuracy, out / "reward.png")
    print(f"\n{'seed':>4}  {'start accuracy':>14}  {'final accuracy':>14}  {'rollouts':>8}  {'seconds':>7}")
    print(
        f"{seed:>4}  {accuracy[0][1]:>14.3f}  {accuracy[-1][1]:>14.3f}  {len(curve):>8}  {seconds:>7.1f}\n"
        f"(accuracy on 1024 held-out prompts, sampled at temperature 1)\n\n"
        f"Summary: {out / 'summary.json'}   Curve: {out / 'reward.png'}   Watch: tensorboard --logdir {out}"
    )


def scalars(run: Path, tag: str) -> list[tuple[int, float]]:
    """A scalar's steps and values from a TensorBoard log."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run), size_guidance={"scalars": 0})
    events.Reload()
    return [(event.step, event.value) for event in events.Scalars(tag)]


def draw(curve: list[tuple[int, float]], accuracy: list[tuple[int, float]], path: Path) -> None:
    """The reward of each rollout, and the held-out accuracy."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
    axes.plot(*zip(*curve, strict=True), color="tab:blue", alpha=0.8, label="training reward")
    axes.plot(*zip(*accuracy, strict=True), "o-", color="tab:orange", label="held-out accuracy (1024 prompts)")
    axes.set(xlabel="rollouts", ylabel="exact match", ylim=(0, 1), title="GRPO on sort6, 133K parameters")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
