"""How far a run came, how it ended as far as its files tell, and what it cost."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from lightrl_runs.report.run_folder import RunFolder, number_at

RECENT_S = 600.0
"""A run whose log was written to within these seconds may still be going."""


def unit_of(run: RunFolder) -> str:
    """The unit in which the run counts."""
    return "rollout" if "model.algorithm" in run.settings or "progress/tokens" in run.log.numbers else "step"


def planned(run: RunFolder) -> int | None:
    """Rollouts or steps that the config asks for; None: it does not say."""
    return number_at(run.settings, "rollouts" if unit_of(run) == "rollout" else "trainer.max_steps")


def state(run: RunFolder, now: float | None = None) -> str:
    """A sentence on how far the run came and whether it is over.

    Args:
        run: with its log.
        now: in seconds since 1970; None: the present.
    """
    unit, wanted, done = unit_of(run), planned(run), run.log.done
    if run.log.last_entry is None or not run.log.numbers:
        return f"Nothing was logged before the report was made: the run has not finished its first {unit}, or it ended before."
    said = f"{done:,} {unit}s" if wanted is None else f"{done:,} of {wanted:,} {unit}s"
    if wanted is not None and done >= wanted:
        return f"Complete: {said}."
    if (run.path / "checkpoints" / "preempted.ckpt").exists():
        return f"Ended by a signal: {said}. It goes on with --ckpt_path {run.path / 'checkpoints' / 'preempted.ckpt'}"
    moment = datetime.fromtimestamp(run.log.last_entry, UTC).strftime("%Y-%m-%d %H:%M UTC")
    if (time.time() if now is None else now) - run.log.last_entry < RECENT_S:
        return f"Still going, or ended just now: {said}; last entry {moment}."
    ended = "" if wanted is None else ", so a limit of its config, early stopping or a kill has ended it"
    return f"Not going any more: {said}{ended}; last entry {moment}."


def processes(run: RunFolder) -> int | None:
    """Devices of the run, one process each; None: the config leaves it to the machine."""
    devices, nodes = number_at(run.settings, "trainer.devices"), number_at(run.settings, "trainer.num_nodes")
    return None if devices is None or nodes is None else devices * nodes


def cost(run: RunFolder) -> dict[str, str]:
    """The cost of the run, each amount under its name; what is not known is left out."""
    found = {}
    seconds = run.log.seconds or run.log.last("progress/seconds")
    if seconds:
        found["time"] = duration(seconds)
        device = {"cpu": "CPU", "gpu": "GPU", "cuda": "GPU", "mps": "GPU"}.get(run.settings.get("trainer.accelerator", ""), "device")
        count = processes(run)
        if count is None:
            found[f"{device} hours"] = f"{seconds / 3600:.3g} times the number of devices, which the config leaves to the machine"
        else:
            found[f"{device} hours"] = f"{count * seconds / 3600:.3g}" + (f" ({count} processes)" if count > 1 else "")
    for name, tag in {"sampled tokens": "progress/tokens", "optimizer steps": "progress/optimizer_steps"}.items():
        value = run.log.last(tag)
        if value is not None:
            found[name] = f"{value:,.0f}"
    return found


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
