"""Scores of a policy by EleutherAI's lm-eval, whose own class for models of transformers is given the policy's network."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lm_eval.evaluator import simple_evaluate
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager

from lightrl import Policy
from lightrl.config import closest


@dataclass(frozen=True)
class Settings:
    """The settings of an evaluation; the defaults are those of the command `lm_eval`."""

    limit: int | None = None
    """Rows of each task, the first ones; None: all."""
    num_fewshot: int | None = None
    """Examples before a question; None: as the task says."""
    batch_size: int = 8
    """Rows of one forward pass."""
    apply_chat_template: bool = False
    """Ask in the form of the policy's chat template."""


@dataclass(frozen=True)
class Score:
    """One number of a task."""

    task: str
    metric: str
    """As lm-eval names it, without the filter `none`: `acc`, `exact_match/strict-match`."""
    value: float
    stderr: float | None
    """Its standard error; None where lm-eval gives none."""
    rows: int
    """That it is made of."""


def tasks_named(names: Sequence[str], include: str | None = None) -> TaskManager:
    """The tasks that lm-eval has, and those of a folder.

    Args:
        names: of tasks, groups or tags; all must be there.
        include: folder with task files. They can run code: lm-eval imports the functions that they name, and fills their templates in
            without a sandbox.

    Raises:
        ValueError: there is no task of a name.
    """
    manager = TaskManager(include_path=include)
    for name in names:
        if name not in manager.all_tasks:
            where = "lm-eval" if include is None else f"lm-eval and {include}"
            raise ValueError(
                f"there is no task {name!r} in {where}.{closest(name, manager.all_tasks)} lm-eval ls tasks lists those of lm-eval"
            )
    return manager


def scores(policy: Policy, names: Sequence[str], settings: Settings = Settings(), manager: TaskManager | None = None) -> list[Score]:
    """The numbers that `lm_eval --model hf` gives for the policy's folder, by task and metric in the order of lm-eval.

    Args:
        policy: where its weights are is where it runs.
        names: of tasks, groups or tags.
        settings: of the evaluation.
        manager: of `tasks_named`; None: the tasks of lm-eval.

    Raises:
        ValueError: the data of a task is not there, or cannot be fetched.
    """
    policy.eval()
    # else it warns that a network in place of a path leaves other arguments without effect
    logging.getLogger("lm_eval.models.huggingface").setLevel(logging.ERROR)
    model = HFLM(pretrained=policy.merged().model, tokenizer=policy.tokenizer, batch_size=settings.batch_size)
    try:
        found = simple_evaluate(
            model=model,
            tasks=list(names),
            num_fewshot=settings.num_fewshot,
            limit=settings.limit,
            apply_chat_template=settings.apply_chat_template,
            log_samples=False,
            task_manager=manager or tasks_named(names),
        )
    except OSError as error:
        raise ValueError(f"the data of {', '.join(names)} cannot be read: {error}") from error
    return [] if found is None else _scores(found["results"], found["n-samples"])


def _scores(results: Mapping[str, Mapping[str, object]], rows: Mapping[str, Mapping[str, int]]) -> list[Score]:
    made = []
    for task, numbers in results.items():
        for key, value in numbers.items():
            metric, _, name = key.partition(",")
            if not isinstance(value, float | int) or not name or metric.endswith("_stderr"):
                continue
            spread = numbers.get(f"{metric}_stderr,{name}")
            count = rows.get(task, {}).get("effective", 0)
            shown = metric if name == "none" else f"{metric}/{name}"
            made.append(Score(task, shown, float(value), float(spread) if isinstance(spread, float) else None, count))
    return made
