"""The folder of a run: what is known about the run from the files that it left there."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lightrl.callbacks.describe_run import flat
from lightrl.callbacks.run_folder import NAME as CONFIG
from lightrl.config import ConfigError, closest
from lightrl_runs.report import csv_log, tensorboard_log
from lightrl_runs.report.run_log import RunLog

LEFT_BY_RUNS = (tensorboard_log.PATTERN, csv_log.NAME, CONFIG)
"""One of these is in the folder of every run that can be reported."""
MOST_NAMED = 6
"""Folders that a refusal names."""


@dataclass
class RunFolder:
    """A run."""

    path: Path
    """As it was given."""
    log: RunLog
    """What it logged."""
    configs: list[Path]
    """The config of the run, and those of runs that went on in its folder with other settings, in this order."""
    settings: dict[str, str]
    """Every value of the last config by its key on the command line; empty if there is no config."""

    @property
    def seeds(self) -> str:
        """The value of `seed_everything`, or of the seeds if they differ, for a reader."""
        found = {key: value for key, value in self.settings.items() if is_seed(key)}
        return found.get("seed_everything", "not stated")

    @property
    def command(self) -> str:
        """The command that repeats the run."""
        if not self.configs:
            return ""
        return f"lightrl fit --config {shlex.quote(str(self.configs[-1]))}"


def read_run(path: Path) -> RunFolder:
    """Read the folder of a run.

    Raises:
        ConfigError: there is no such folder, or no run has left anything in it.
    """
    _refuse_without_run(path)
    configs = sorted(path.glob(f"{Path(CONFIG).stem}*.yaml"), key=lambda file: (len(file.name), file.name))
    has_events = any(path.glob(tensorboard_log.PATTERN))
    table = path / csv_log.NAME
    log = tensorboard_log.read_events(path) if has_events else csv_log.read_table(table) if table.is_file() else RunLog()
    return RunFolder(path, log, configs, settings_of(configs[-1]) if configs else {})


def settings_of(file: Path) -> dict[str, str]:
    """Every value of a config as text, by the key that the command line calls it by.

    Raises:
        ConfigError: the file is not a config.
    """
    try:
        tree = yaml.safe_load(file.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError("", f"{str(file)!r} is not a config: {str(error).splitlines()[0]}", "Move it away, or repair it.") from error
    return {_on_command_line(key): _text(value) for key, value in flat(tree)}


def is_seed(key: str) -> bool:
    """The key sets a seed."""
    return key.rpartition(".")[2] in ("seed", "seed_everything")


def below(path: Path) -> list[Path]:
    """Folders of runs inside a folder, at most three levels down."""
    found = {file.parent for pattern in LEFT_BY_RUNS for depth in ("*/", "*/*/", "*/*/*/") for file in path.glob(depth + pattern)}
    return sorted(found, key=lambda folder: (len(str(folder)), str(folder)))


def _refuse_without_run(path: Path) -> None:
    looked = "event files of TensorBoard (events.out.tfevents.*), a metrics.csv or a config.yaml"
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
        problem = f"no run has logged to {str(path)!r}: there are no {looked.replace(' or a ', ' and no ')}. {has}"
        raise ConfigError("RUN", problem, f"Type for example: lightrl report {_example(path)}")


def _example(path: Path) -> str:
    inside = below(path)[:3] if path.is_dir() else []
    return " ".join(shlex.quote(str(folder)) for folder in inside) or "runs/grpo/version_0"


def _on_command_line(key: str) -> str:
    return ".".join(name for name in key.split(".") if name not in ("class_path", "init_args"))


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
