"""Conversion of values that a script may pass in place of parts: names, functions and loaded models; anything else is refused at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lightrl.algorithms.algorithm import Algorithm
from lightrl.parts.description import own
from lightrl.parts.engine import RolloutEngine
from lightrl.parts.environment import Environment
from lightrl.parts.function import Function
from lightrl.parts.reward import Reward
from lightrl.policy.source import PolicySource, PretrainedPolicy
from lightrl.registry.classes import registry


def as_policy(given: PolicySource | str) -> PolicySource:
    """A policy source; a text is the path of a `PretrainedPolicy`."""
    if isinstance(given, str):
        return PretrainedPolicy(given)
    loaded = hasattr(given, "generate")
    example = "policy=LoadedPolicy(model, tokenizer)" if loaded else 'for example policy="Qwen/Qwen2.5-0.5B-Instruct"'
    _refuse_other(given, PolicySource, "policy", "a folder, a hub id or a policy source", example)
    return given


def as_algorithm(given: Algorithm | type[Algorithm] | str) -> Algorithm:
    """An algorithm; a text is the name under which a package registers it, and a class stands for its defaults."""
    named: Any = registry().resolve("algorithm", given, "algorithm") if isinstance(given, str) else given
    algorithm: Algorithm = named() if isinstance(named, type) else named
    _refuse_other(algorithm, Algorithm, "algorithm", "a name, or an algorithm", 'for example algorithm="GRPO", or GRPO(epochs=2)')
    return algorithm


def as_rewards(given: Mapping[str, Any] | None) -> dict[str, Reward]:
    """Rewards by name; a function, or the import path of one, is a `Function`, and the name of a class stands for its defaults."""
    rewards = {} if given is None else given
    example = 'for example rewards={"correct": ExactMatch(), "short": my_function}'
    _refuse_other(rewards, Mapping, "rewards", "rewards by name", example)
    return {name: _as_reward(name, reward, example) for name, reward in rewards.items()}


def _as_reward(name: str, given: Any, example: str) -> Reward:
    reward: Reward = given
    if isinstance(given, str):
        reward = Function(given) if "." in given else registry().resolve("reward", given, f"rewards[{name!r}]")()
    elif callable(given) and not isinstance(given, (type, Reward)):
        reward = Function.of(given)
    _refuse_other(reward, Reward, f"rewards[{name!r}]", "a reward, a function or its import path", example)
    return reward


def as_engine(given: RolloutEngine) -> RolloutEngine:
    """An engine of the module's own."""
    _refuse_other(given, RolloutEngine, "engine", "a rollout engine", "for example engine=TransformersEngine()")
    return own(given, "model.engine")


def as_environment(given: Environment) -> Environment:
    """An environment of the module's own."""
    _refuse_other(given, Environment, "environment", "an environment", "for example environment=SingleTurn()")
    return own(given, "model.environment")


def _refuse_other(given: object, base: type, argument: str, wanted: str, example: str) -> None:
    if not isinstance(given, base):
        of_type = f"{type(given).__name__} {given!r:.60}"
        what = f"the class {given.__name__}, and not an object of it" if isinstance(given, type) else of_type
        raise TypeError(f"{argument} must be {wanted}, got {what}.\nType {example}")
