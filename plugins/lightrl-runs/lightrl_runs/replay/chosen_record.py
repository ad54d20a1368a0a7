"""The record that a command names, with its config and its weights; errors say what there is."""

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lightrl.config import ConfigError, closest
from lightrl.strategies.checkpoint_files import CheckpointError, check
from lightrl.strategies.checkpoint_weights import notes_in, refuse_without_optimizer
from lightrl_runs.records.record import Record
from lightrl_runs.records.record_files import CONFIG, FOLDER, RecordError, is_record, read, recorded

HOW = "A run records its rollouts with --trainer.callbacks+=RecordRollouts (docs/replay.md)"
MOST_NAMED = 12
"""Rollouts that a refusal names."""


@dataclass(frozen=True)
class Chosen:
    """A record and what goes with it."""

    folder: Path
    records: Sequence[Record]
    config: Path
    checkpoint: Path | None
    """The weights before the rollout; None: there are none."""
    no_weights: str
    """Why there are none, in a sentence."""


def choose(options: argparse.Namespace) -> Chosen:
    """Find the record and read it; a ConfigError if there is none, or it is damaged or has no config."""
    folder = _folder(Path(options.run).expanduser(), options.rollout)
    try:
        records = read(folder)
    except RecordError as error:
        raise ConfigError("RUN", f"the record {error}.", *_others(folder)) from error
    config = Path(options.config).expanduser() if options.config else folder / CONFIG
    if not config.is_file():
        why = "" if options.config else ": a run of a script has no config, and a replay builds rewards and policy from one"
        raise ConfigError("--config", f"there is no file {str(config)!r}{why}.", "Type for example: --config grpo.yaml")
    checkpoint, why = _checkpoint(options, folder, records[0])
    return Chosen(folder, records, config, checkpoint, why)


def _folder(run: Path, rollout: int | None) -> Path:
    if is_record(run):
        if rollout is not None and f"rollout={rollout}" != run.resolve().name:
            raise ConfigError("--rollout", f"{str(run)!r} is the record of one rollout, and not of {rollout}.", "Leave --rollout out.")
        return run
    run = run.parent if run.name == FOLDER else run
    if not run.is_dir():
        beside = [p.name for p in run.parent.iterdir() if p.is_dir()] if run.parent.is_dir() else []
        raise ConfigError("RUN", f"there is no folder {str(run)!r}.{closest(run.name, beside)}", "Give the folder of a run.")
    found = recorded(run)
    if not found:
        below = [*sorted(run.glob(f"*/{FOLDER}/*/rank=0.json")), *sorted(run.glob(f"*/*/{FOLDER}/*/rank=0.json"))]
        example = f"Type for example: lightrl replay {shlex.quote(str(below[0].parents[2]))}" if below else HOW
        raise ConfigError("RUN", f"{str(run)!r} has no recorded rollout.", example)
    if rollout is None:
        return list(found.values())[-1]
    if rollout not in found:
        raise ConfigError("--rollout", f"rollout {rollout} is not recorded in {str(run)!r}. Recorded: {_numbers(list(found))}.")
    return found[rollout]


def _numbers(rollouts: Sequence[int]) -> str:
    named = ", ".join(map(str, rollouts[:MOST_NAMED]))
    return named if len(rollouts) <= MOST_NAMED else f"{named}, ... {rollouts[-1]}"


def _others(folder: Path) -> list[str]:
    others = [rollout for rollout, path in recorded(folder.parent.parent).items() if path.name != folder.name]
    return [f"Other records of the run: {_numbers(others)}."] if others else []


def _checkpoint(options: argparse.Namespace, folder: Path, record: Record) -> tuple[Path | None, str]:
    if options.no_weights:
        return None, "asked for by --no_weights"
    notes = record.notes
    path = Path(options.ckpt_path).expanduser() if options.ckpt_path else folder / notes.checkpoint
    if not path.exists():
        if options.ckpt_path:
            names = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
            raise ConfigError("--ckpt_path", f"there is no checkpoint {str(path)!r}.{closest(path.name, names)}")
        return None, f"there is no checkpoint {str(path.resolve())!r}; a run writes it with RecordRollouts' checkpoint: true"
    try:
        check(path)
        state = notes_in(path)
        refuse_without_optimizer(path, state)
    except CheckpointError as error:
        raise ConfigError("", str(error)) from error
    rollouts, steps = state.get("run", {}).get("steps"), state.get("global_step")
    if (rollouts, steps) != (notes.rollout - 1, notes.steps):
        raise ConfigError(
            "--ckpt_path",
            f"{str(path)!r} was written after {rollouts} rollouts and {steps} optimizer steps, and rollout {notes.rollout} was learnt from "
            f"with the weights after {notes.rollout - 1} rollouts and {notes.steps} steps.",
            "Give the checkpoint of that moment, or --no_weights.",
        )
    return path, ""
