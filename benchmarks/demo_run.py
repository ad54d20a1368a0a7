"""What demonstrations share: the command line, where a run's log goes, and what is read from it."""

# ruff: noqa: T201

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path


def lightrl(*arguments: object) -> None:
    """Run the command line, and stop with its status if it fails."""
    command = [sys.executable, "-m", "lightrl", *map(str, arguments)]
    print("$ lightrl " + " ".join(command[3:]), flush=True)
    status = subprocess.run(command, check=False).returncode
    if status:
        sys.exit(status)


def seeded(seed: int) -> list[object]:
    """Options that give a run of `fit` its seed."""
    return ["--seed_everything", seed, "--data.seed", seed]


def logged_to(folder: Path) -> list[object]:
    """Options that put the log of a run into a folder."""
    logger = "lightning.pytorch.loggers.TensorBoardLogger"
    return ["--trainer.logger", logger, "--trainer.logger.save_dir", folder.parent, "--trainer.logger.name", folder.name]


def latest(folder: Path) -> Path:
    """The newest version of a run."""
    return max(folder.glob("version_*"), key=lambda version: int(version.name.split("_")[1]))


def scalars(run: Path, tag: str) -> list[float]:
    """A scalar's values from a TensorBoard log."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run), size_guidance={"scalars": 0})
    events.Reload()
    return [event.value for event in events.Scalars(tag)]


def cpu_seconds() -> float:
    """Processor time of this process and of those that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def write_summary(out: Path, summary: Mapping[str, object]) -> None:
    """Print the summary of a demonstration, and write it as `summary.json`."""
    text = json.dumps(summary, indent=2)
    (out / "summary.json").write_text(text + "\n")
    print(text)
