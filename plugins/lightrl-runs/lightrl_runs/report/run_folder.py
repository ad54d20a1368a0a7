"""The folder of a run: what is known of the run, how it ended as far as its files tell, and what it cost."""

import os
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatch
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from lightrl.callbacks.describe_run import flat
from lightrl.callbacks.run_folder import NAME as CONFIG
from lightrl.config import ConfigError, closest, parse_yaml
from lightrl_runs.report.logs import EVENTS, TABLE, RunLog, read_events, read_table

LEFT_BY_RUNS = (EVENTS, TABLE, CONFIG)
"""One of these is in the folder of every run that can be reported."""
PLACES = ("trainer.logger", "trainer.default_root_dir", "trainer.enable_progress_bar", "ckpt_path", "weights_only")
"""Keys that say where a run logs, how it is shown and where it goes on, and change none of its numbers."""
DEEPEST = 3
MOST_NAMED = 6
RECENT_S = 600.0
"""A run whose log was written to within these seconds may still be going."""


@dataclass
class RunFolder:
    """A run."""

    path: Path
    log: RunLog
    configs: list[Path]
    """The config of the run, and those of runs that went on in its folder with other settings, in this order."""
    settings: dict[str, str]
    """Every value of the last config by its key on the command line; empty if there is no config."""

    @property
    def seeds(self) -> str:
        """The value of `seed_everything`, for a reader."""
        return self.settings.get("seed_everything", "not stated")

    @property
    def command(self) -> str:
        """The command that repeats the run, from its start too if it was resumed."""
        again = "" if self.settings.get("ckpt_path", "null") == "null" else " --ckpt_path null"
        return f"lightrl fit --config {shlex.quote(str(self.configs[-1]))}{again}" if self.configs else ""


def read_run(path: Path) -> RunFolder:
    """Read the folder of a run; a ConfigError if there is none, or no run has left anything in it."""
    _refuse_without_run(path)
    files = sorted(path.glob(f"{Path(CONFIG).stem}*.yaml"), key=lambda file: (len(file.name), file.name))
    settings = {file: settings_of(file) for file in files}
    # a run that was only resumed has a config too, which says where from
    configs = [file for before, file in pairwise([None, *files]) if before is None or of_run(settings[before]) != of_run(settings[file])]
    table = path / TABLE
    log = read_events(path) if any(path.glob(EVENTS)) else read_table(table) if table.is_file() else RunLog()
    return RunFolder(path, log, configs, settings[configs[-1]] if configs else {})


def settings_of(file: Path) -> dict[str, str]:
    """Every value of a config as text, by the key that the command line calls it by; a ConfigError if it is none."""
    try:
        if file.is_symlink() or not file.is_file():
            raise yaml.YAMLError("it is a symbolic link, folder or pipe, and what it leads to may be anybody's")
        tree = parse_yaml(file.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError("", f"{str(file)!r} is not a config: {str(error).splitlines()[0]}", "Move it away, or repair it.") from error
    wrapped = ("class_path", "init_args")
    return {".".join(name for name in key.split(".") if name not in wrapped): _text(value) for key, value in flat(tree)}


def of_run(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings without those that say where a run begins and writes."""
    inside = tuple(f"{place}." for place in PLACES)
    return {key: value for key, value in settings.items() if not f"{key}.".startswith(inside)}


def is_seed(key: str) -> bool:
    """The key sets a seed."""
    return key.rpartition(".")[2] in ("seed", "seed_everything")


def below(path: Path) -> list[Path]:
    """Folders of runs inside a folder, at most `DEEPEST` levels down."""
    found = set()
    # unlike glob it passes over what may not be read
    for folder, inner, names in os.walk(path):
        depth = len(Path(folder).relative_to(path).parts)
        if depth and any(fnmatch(name, pattern) for name in names for pattern in LEFT_BY_RUNS):
            found.add(Path(folder))
        if depth == DEEPEST:
            inner.clear()
    return sorted(found, key=lambda folder: (len(str(folder)), str(folder)))


def _refuse_without_run(path: Path) -> None:
    looked = "no event file of TensorBoard (events.out.tfevents.*), no metrics.csv and no config.yaml"
    if not path.is_dir():
        there = [p.name for p in path.parent.iterdir() if p.is_dir()] if path.parent.is_dir() else []
        what = "is a file" if path.exists() else "does not exist"
        problem = f"a run is the folder that it logged to, and {str(path)!r} {what}.{closest(path.name, there)}"
        raise ConfigError("RUN", problem, f"Type for example: lightrl report {_example(path.parent)}")
    if not any(True for pattern in LEFT_BY_RUNS for _ in path.glob(pattern)):
        inside = below(path)
        if inside:
            named = ", ".join(str(p.relative_to(path)) for p in inside[:MOST_NAMED]) + (", ..." if len(inside) > MOST_NAMED else "")
            has = f"Inside it there are {len(inside)} runs: {named}." if len(inside) > 1 else f"Inside it there is one run: {named}."
        else:
            has = f"It has: {', '.join(sorted(p.name for p in path.iterdir())[:MOST_NAMED]) or 'nothing'}."
        problem = f"no run has logged to {str(path)!r}: there is {looked}. {has}"
        raise ConfigError("RUN", problem, f"Type for example: lightrl report {_example(path)}")


def _example(path: Path) -> str:
    inside = below(path)[:3] if path.is_dir() else []
    return " ".join(shlex.quote(str(folder)) for folder in inside) or "runs/grpo/version_0"


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return "null" if value is None else yaml.safe_dump(value, default_flow_style=True, width=10**6).removesuffix("\n...\n").strip()


def number_at(settings: Mapping[str, str], key: str) -> int | None:
    """A positive whole number among settings; None where there is none, as with `auto`."""
    value: Any = yaml.safe_load(settings.get(key, "null"))
    if isinstance(value, list):
        return len(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def unit_of(run: RunFolder) -> str:
    """The unit in which the run counts."""
    return "rollout" if "model.algorithm" in run.settings or "progress/tokens" in run.log.numbers else "step"


def state(run: RunFolder, now: float | None = None) -> str:
    """A sentence on how far the run came and whether it is over, now or at a time in seconds since 1970."""
    unit, done = unit_of(run), run.log.done
    # None: the config does not say
    wanted = number_at(run.settings, "rollouts" if unit == "rollout" else "trainer.max_steps")
    if run.log.last_entry is None or not run.log.numbers:
        return f"Nothing was logged before the report was made: the run has not finished its first {unit}, or it ended before."
    said = f"{done:,} {unit}s" if wanted is None else f"{done:,} of {wanted:,} {unit}s"
    if wanted is not None and done >= wanted:
        return f"Complete: {said}."
    if (run.path / "checkpoints" / "preempted.ckpt").exists():
        return f"Ended by a signal: {said}. It goes on with --ckpt_path {run.path / 'checkpoints' / 'preempted.ckpt'}"
    moment = datetime.fromtimestamp(run.log.last_entry, UTC).strftime("%Y-%m-%d %H:%M UTC")
    if not done:
        return f"Evaluated at {moment}; no {unit} has been logged: a run that has just begun, or lightrl validate."
    if (time.time() if now is None else now) - run.log.last_entry < RECENT_S:
        return f"Still going, or ended just now: {said}; last entry {moment}."
    ended = "" if wanted is None else ", so a limit of its config, early stopping or a kill has ended it"
    return f"Not going any more: {said}{ended}; last entry {moment}."


def cost(run: RunFolder) -> dict[str, str]:
    """The cost of the run, each amount under its name; what is not known is left out."""
    found = {}
    seconds = run.log.seconds or run.log.last("progress/seconds")
    if seconds:
        found["time"] = duration(seconds)
        device = {"cpu": "CPU", "gpu": "GPU", "cuda": "GPU", "mps": "GPU"}.get(run.settings.get("trainer.accelerator", ""), "device")
        devices, nodes = number_at(run.settings, "trainer.devices"), number_at(run.settings, "trainer.num_nodes")
        if devices is None or nodes is None:
            found[f"{device} hours"] = f"{seconds / 3600:.3g} times the number of devices, which the config leaves to the machine"
        else:
            count = devices * nodes
            found[f"{device} hours"] = f"{count * seconds / 3600:.3g}" + (f" ({count} processes)" if count > 1 else "")
    for name, tag in {"sampled tokens": "progress/tokens", "optimizer steps": "progress/optimizer_steps"}.items():
        if (value := run.log.last(tag)) is not None:
            found[name] = f"{value:,.0f}"
    return found


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
