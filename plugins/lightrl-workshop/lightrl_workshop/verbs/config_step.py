"""One step of a config on a CPU; parts that need files, models or time are replaced by tiny ones."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

from lightrl.config import Choice, Resolved, Setting, read_words, resolve
from lightrl.parts.environment import SingleTurn
from lightrl.parts.reference import Reference
from lightrl.parts.value_model import ValueModel
from lightrl.policy.source import PolicySource, PretrainedPolicy
from lightrl.registry import registry

TRAINER = {
    "accelerator": "cpu",
    "devices": 1,
    "strategy": "auto",
    "precision": "32-true",
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "enable_checkpointing": False,
    "logger": False,
    "callbacks": [],
}
SMALL: dict[str, Any] = {"hidden": 16, "layers": 1}
"""Of the policy that takes the place of another."""
CHARACTERS = string.ascii_letters + string.digits + string.punctuation + " \n"
"""Of policies whose environment says more than digits."""
ENGINE = {"class_path": "TransformersEngine", "init_args": {"max_new_tokens": 4}}
REWARD = {"class_path": "Function", "init_args": {"path": "lightrl_workshop.toy.parity", "runs": "inline"}}
FILES = frozenset({"DatasetPrompts", "JsonLines", "Parquet"})
"""Prompt sources of the core that read files or the hub."""
EXAMPLES = 1000
"""As many examples are left of a task that makes its prompts: each prompt is made and hashed before the first step."""


def one_step(file: Path, keep: str | None = None) -> int:
    """Make one step of a config, or one short rollout, with the parts of the distribution `keep` as they are; gives the steps made.

    Policy, teacher, engine, rewards, a critic from a folder and prompts from files give way to tiny ones.
    """
    from lightrl.config import Run

    request = read_words(["--config", str(file)])
    resolved = resolve("fit", request, complete=False)
    request.settings.append(Setting((), _smallest(resolved, _classes(keep)), "one step"))
    run = Run("fit", resolve("fit", request))
    run.start()
    return int(run.trainer.global_step)


def _classes(distribution: str | None) -> set[type[Any]]:
    records = [r for r in registry().records if r.distribution == distribution]
    return {cls for r in records for classes in r.classes.values() for cls in classes}


def _smallest(resolved: Resolved, kept: set[type[Any]]) -> dict[str, Any]:
    """Settings that leave little of a config to do."""
    model, train = resolved.model, resolved.data.value("train")
    online = "algorithm" in model.takes
    small: dict[str, Any] = _length(model) if online else {}
    if "policy" in model.takes and ((policy := model.value("policy")).cls not in kept or issubclass(policy.cls, PretrainedPolicy)):
        small["policy"] = _policy(model, policy.cls)
    if "engine" in model.takes and (engine := model.value("engine")) is not None and engine.cls not in kept:
        small["engine"] = ENGINE
    rewards = model.value("rewards") if "rewards" in model.takes else None
    if replaced := {name: REWARD for name, reward in (rewards or {}).items() if reward.cls not in kept}:
        small["rewards"] = replaced
    data: dict[str, Any] = {"validation_size": 2} if resolved.data.value("validation_size") else {}
    if resolved.data.value("validation") is not None:
        data["validation"] = None
    if isinstance(train, Choice) and train.cls.__name__ in FILES and train.cls not in kept:
        sorting = "DigitSorting" if online or model.cls.__name__ == "SupervisedFineTuning" else "SortedPairs"
        data["train"] = {"class_path": sorting, "init_args": {"length": 3, "examples": 200}}
    elif isinstance(train, Choice) and (fewer := _fewer_examples(train, kept)):
        data["train"] = fewer
    lasts = {"rollouts": 1, "trainer": TRAINER} if online else {"trainer": {**TRAINER, "max_steps": 1}}
    return {**lasts, "model": small, "data": data}


def _policy(model: Choice, cls: type[PolicySource]) -> dict[str, Any]:
    told = "environment" in model.takes and model.value("environment").cls is not SingleTurn
    return {"class_path": cls.tried_as, "init_args": SMALL | ({"alphabet": CHARACTERS} if told else {})}


def _fewer_examples(source: Choice, kept: set[type[Any]]) -> dict[str, Any]:
    """Settings that leave `EXAMPLES` of a task, which may stand inside another source."""
    if source.cls in kept:
        return {}
    given = {name: source.value(name) for name in source.takes}
    settings = {name: inner for name, value in given.items() if isinstance(value, Choice) and (inner := _fewer_examples(value, kept))}
    examples = given.get("examples")
    return settings | ({"examples": EXAMPLES} if isinstance(examples, int) and examples > EXAMPLES else {})


def _has_own_policy(part: object) -> bool:
    """Such as a teacher, which is not the policy that learns."""
    return isinstance(part, Choice) and issubclass(part.cls, Reference) and "policy" in part.takes


def _length(model: Choice) -> dict[str, Any]:
    algorithm: Choice = model.value("algorithm")
    sampler: Choice = algorithm.value("sampler")
    given: dict[str, Any] = {"epochs": 1}
    if "group_size" in sampler.takes:
        given["sampler"] = {"group_size": min(int(sampler.value("group_size")), 2)}
    critic = algorithm.value("critic")
    if critic is not None and critic.cls is ValueModel:
        given["critic"] = {"path": None}
    given |= {
        slot: {"policy": _policy(model, algorithm.value(slot).value("policy").cls)}
        for slot in algorithm.takes
        if _has_own_policy(algorithm.value(slot))
    }
    return {"prompts_per_rollout": int(algorithm.value("minibatches")), "algorithm": given}
