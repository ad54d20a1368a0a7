"""One step of a config on a CPU; parts that need files, models or time are replaced by tiny ones."""

from __future__ import annotations

import string
from collections.abc import Mapping, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from lightrl.algorithms.algorithm import Algorithm
from lightrl.arguments import arguments_of
from lightrl.config import Choice, Request, Setting, read_words
from lightrl.parts.environment import Environment, SingleTurn
from lightrl.parts.reference import Reference
from lightrl.parts.value_model import ValueModel
from lightrl.policy.source import PolicySource, PretrainedPolicy
from lightrl.policy.tiny import TinyPolicy
from lightrl.rollout.decode.transformers_engine import TransformersEngine
from lightrl_workshop.checks.check import Make
from lightrl_workshop.checks.telling import lacking, writes_prompts
from lightrl_workshop.contracts.environment import said_in
from lightrl_workshop.toy import CHARACTERS
from lightrl_workshop.verbs.config_parts import TinyChat

if TYPE_CHECKING:
    from lightrl.config import Resolved

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
ENGINE = {"class_path": "TransformersEngine", "init_args": {"max_new_tokens": 4}}
REWARD = {"class_path": "Function", "init_args": {"path": "lightrl_workshop.toy.parity", "runs": "inline"}}
FILES = frozenset({"DatasetPrompts", "JsonLines", "Parquet"})
"""Prompt sources of the core that read files or the hub."""
EXAMPLES = 1000
"""As many examples are left of a task that makes its prompts: each prompt is made and hashed before the first step."""


PLACES = {"algorithm": "algorithm", "rollout engine": "engine", "environment": "environment", "module": ""}
"""The kinds of classes of which a run has exactly one, with the key of the model; the model itself is a module."""
ENDING = {"class_path": "TransformersEngine", "init_args": {"max_new_tokens": 24, "stop": list(string.ascii_letters + "13579")}}
"""An engine whose completions nearly all end, since those that are cut off may be masked, and end an episode."""
MODEL: dict[str, Any] = {
    "algorithm": "lightrl.GroupRelative",
    "objective": "lightrl.ChosenLikelihood",
    "rewards": {"parity": REWARD},
    "engine": ENDING,
}
"""Arguments of modules, where a class is tried in one."""


def one_step(file: Path, kept: Set[type[Any]] = frozenset()) -> int:
    """Make one step of a config, or one short rollout, with these classes as they are; gives the steps made.

    Policy, teacher, engine, rewards, a critic from a folder, an environment at a url and prompts from files give way to tiny ones.
    """
    return _step(read_words(["--config", str(file)]), kept)[0]


def steps_of_class(kind: str, make: Make[Any], name: str, given: Mapping[str, object]) -> dict[str, int]:
    """Make one step with a class of `PLACES` and these arguments in each way in which a config has it; gives the steps made in each.

    First it is named and has its defaults; then it stands as the run's folder has it, by its import path and with every default.
    """
    kept = {type(made := make()), TransformersEngine, TinyPolicy, TinyChat}
    steps, text = _step(_request(_config_with(kind, made, {"class_path": name, "init_args": dict(given)}), name), kept)
    written = "with every default written out"
    return {f"named {name}": steps, written: _step(_request(yaml.safe_load(text), written), kept)[0]}


def _request(config: Mapping[str, object], source: str) -> Request:
    return Request([Setting((), config, source)])


def _step(request: Request, kept: Set[type[Any]]) -> tuple[int, str]:
    """The steps that were made, and the config with every default."""
    # Lightning is not imported for a file whose classes take no step
    from lightrl.config import Run, resolve

    resolved = resolve("fit", request, complete=False)
    request.settings.append(Setting((), _smallest(resolved, kept), "one step"))
    run = Run("fit", resolve("fit", request))
    run.start()
    return int(run.trainer.global_step), run.text


def _config_with(kind: str, made: object, chosen: dict[str, Any]) -> dict[str, Any]:
    """A config with the class of this object in its place, and little beside it."""
    takes, given = arguments_of(type(made)), chosen["init_args"]
    policy: dict[str, Any] = {"class_path": "TinyPolicy", "init_args": SMALL}
    train: dict[str, Any] = {"class_path": "DigitSorting"}
    if isinstance(made, Environment):
        train = {"class_path": "lightrl_workshop.verbs.config_parts.ExamplePrompts", "init_args": {"environment": chosen}}
        alphabet = "".join(sorted({*CHARACTERS, *said_in(made)}))
        chatting = "lightrl_workshop.verbs.config_parts.TinyChat"
        policy = {"class_path": chatting, "init_args": SMALL | {"alphabet": alphabet, "max_positions": 4096}}
    elif isinstance(made, Algorithm) and writes_prompts(made):
        policy = {"class_path": "TinyPolicy", "init_args": SMALL | {"alphabet": CHARACTERS, "max_positions": 4096}}
    model = MODEL | {"policy": policy}
    if kind == "module":
        # prompts from a file give way to those that the module learns from
        train = {"class_path": "JsonLines", "init_args": {"path": ""}}
        needed = {name: value for name, value in model.items() if name in takes and (takes[name].required or "algorithm" in takes)}
        return {"model": {**chosen, "init_args": needed | given}, "data": {"train": train}}
    if "max_new_tokens" in takes:
        chosen["init_args"] = {"max_new_tokens": 4} | given
    if isinstance(made, Algorithm) and any(said := lacking(made).values()):
        model["environment"] = {"class_path": "lightrl_workshop.checks.telling.Telling", "init_args": said}
    del model["objective"]
    return {"model": model | {PLACES[kind]: chosen}, "data": {"train": train}}


def _smallest(resolved: Resolved, kept: Set[type[Any]]) -> dict[str, Any]:
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
    asks = _asks_a_server(model, kept)
    if asks:
        small |= {"environment": "SingleTurn", "rewards": {"parity": REWARD}}
    data: dict[str, Any] = {"validation_size": 2} if resolved.data.value("validation_size") else {}
    if resolved.data.value("validation") is not None:
        data["validation"] = None
    if asks or (isinstance(train, Choice) and train.cls.__name__ in FILES and train.cls not in kept):
        sorting = "DigitSorting" if online or model.cls.__name__ == "SupervisedFineTuning" else "SortedPairs"
        data["train"] = {"class_path": sorting, "init_args": {"length": 3, "examples": 200}}
    elif isinstance(train, Choice) and (fewer := _fewer_examples(train, kept)):
        data["train"] = fewer
    lasts = {"rollouts": 1, "trainer": TRAINER} if online else {"trainer": {**TRAINER, "max_steps": 1}}
    return {**lasts, "model": small, "data": data}


def _asks_a_server(model: Choice, kept: Set[type[Any]]) -> bool:
    environment = model.value("environment") if "environment" in model.takes else None
    return environment is not None and environment.cls not in kept and "url" in environment.takes


def _policy(model: Choice, cls: type[PolicySource]) -> dict[str, Any]:
    told = "environment" in model.takes and model.value("environment").cls is not SingleTurn
    return {"class_path": cls.tried_as, "init_args": SMALL | ({"alphabet": CHARACTERS} if told else {})}


def _fewer_examples(source: Choice, kept: Set[type[Any]]) -> dict[str, Any]:
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
        slot: {"policy": _policy(model, getattr(algorithm.value(slot).value("policy"), "cls", TinyPolicy))}
        for slot in algorithm.takes
        if _has_own_policy(algorithm.value(slot))
    }
    return {"prompts_per_rollout": int(algorithm.value("minibatches")), "algorithm": given}
