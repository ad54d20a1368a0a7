"""The tasks of reasoning-gym by name, level and settings."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reasoning_gym.dataset import ProceduralDataset

SHARED = ("seed", "size")
"""Settings that every task has, and that the source has arguments for."""


def dataset(task: str, size: int, seed: int, level: int | None, config: Mapping[str, Any]) -> ProceduralDataset:
    """The questions of a task.

    Args:
        task: its name.
        size: how many questions.
        seed: which ones.
        level: of the task's curriculum, for all its attributes; one that has fewer levels stays at its highest. None: as the task's
            settings are by default.
        config: settings of the task by name, in place of those that the level gives.

    Raises:
        ValueError: a task, a level or a setting that does not exist or that the task refuses.
    """
    from reasoning_gym.factory import DATASETS

    if task not in DATASETS:
        raise ValueError(f"reasoning-gym has no task {task!r}; {_existing(task, DATASETS)}")
    made, settings = DATASETS[task]
    known = [field.name for field in dataclasses.fields(settings) if field.name not in SHARED]
    unknown = [name for name in config if name not in known]
    if unknown:
        raise ValueError(f"the task {task!r} has no setting {unknown[0]!r} in its config; {_existing(unknown[0], known)}")
    chosen = {} if level is None else _of_level(task, level)
    try:
        return made(settings(**{**chosen, **config, "size": size, "seed": seed}))
    except (AssertionError, TypeError, ValueError) as error:
        raise ValueError(f"the task {task!r} refuses level={level} with config={dict(config)}: {error}") from error


def _of_level(task: str, level: int) -> dict[str, Any]:
    """The settings of a level, by name."""
    from reasoning_gym.factory import CURRICULA

    if task not in CURRICULA:
        raise ValueError(f"the task {task!r} has no curriculum, so leave level out and give its settings in config")
    curriculum = CURRICULA[task]()
    highest = max(len(attribute.levels) for attribute in curriculum.attributes.values()) - 1
    if not 0 <= level <= highest:
        raise ValueError(f"the task {task!r} has the levels 0 to {highest}, got level={level}")
    curriculum.set_global_level(level)
    made = curriculum.generate_configuration()
    return {field.name: getattr(made, field.name) for field in dataclasses.fields(made) if field.name not in SHARED}


def _existing(name: str, names: Sequence[str] | Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(name, list(names), n=3)
    hint = f"near it: {', '.join(near)}; " if near else ""
    return f"{hint}there are: {', '.join(sorted(names))}"
