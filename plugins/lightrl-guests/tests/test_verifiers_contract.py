"""The names and rules of verifiers that are relied on; a failing test says what has changed."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

pytest.importorskip("verifiers")

import verifiers.v1 as vf
from lightrl_guests_harness import TurnHarness
from verifiers.v1.configs.agent import agent_config_fields
from verifiers.v1.utils import loaders


def takes(function: Callable[..., object], *names: str) -> bool:
    """The function has arguments of these names, in this order, and needs no others."""
    parameters = list(inspect.signature(function).parameters.values())
    others = [p for p in parameters if p.name not in names]
    return [p.name for p in parameters if p.name in names] == list(names) and all(
        p.default is not p.empty or p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in others
    )


PROTOCOL: dict[str, Callable[[], bool]] = {
    "`resolve_env_config` makes a config of a dictionary with `taskset.id`": lambda: (
        loaders.resolve_env_config({"taskset": {"id": "planted_verifiers"}}).taskset.id == "planted_verifiers"
    ),
    "the agents of an environment are fields of its config": lambda: (
        list(agent_config_fields(loaders.resolve_env_config({"taskset": {"id": "planted_verifiers"}}))) == ["player"]
    ),
    "an agent's config has `harness`, `runtime` and `max_turns`": lambda: (
        {"harness", "runtime", "max_turns"} <= set(vf.AgentConfig.model_fields)
    ),
    "a harness is found by the name of a module": lambda: loaders.harness_class("lightrl_guests_harness") is TurnHarness,
    "`load_environment` takes a config": lambda: takes(loaders.load_environment, "config"),
    "`Env.serving` is a context without arguments": lambda: takes(vf.Env.serving, "self"),
    "`Env.run_episode` takes a task and a context": lambda: takes(vf.Env.run_episode, "self", "task", "ctx"),
    "`ModelContext` takes a model and the config of a client": lambda: takes(vf.ModelContext, "model", "client"),
    "`EvalClientConfig` has `base_url`": lambda: "base_url" in vf.EvalClientConfig.model_fields,
    "`Harness.launch` has the arguments that are overridden": lambda: (
        list(inspect.signature(TurnHarness.launch).parameters) == list(inspect.signature(vf.Harness.launch).parameters)
    ),
    "a harness may ask from within this process": lambda: "in-process" in (vf.Harness.launch.__doc__ or ""),
    "a harness says what it can by four class attributes": lambda: all(
        hasattr(vf.Harness, name) for name in ("APPENDS_SYSTEM_PROMPT", "SUPPORTS_RESUME", "EXECUTES_CODE", "NEEDS_CONTAINER")
    ),
    "an episode has `traces`, `errors` and `ok`": lambda: {"traces", "errors", "ok"} <= set(vf.Episode.model_fields),
    "a trace has `rewards`, `metrics`, `errors` and `stop_condition`": lambda: (
        {"rewards", "metrics", "errors", "stop_condition"} <= set(vf.Trace.model_fields)
    ),
    "the reward of a trace is the weighted sum": lambda: vf.Reward(score=3.0, weight=0.5).value == 1.5,
    "tasks are numbered by iterating their set": lambda: (
        [task.data.idx for task in loaders.load_taskset(loaders.resolve_env_config({"taskset": {"id": "planted_verifiers"}}).taskset)]
        == [0, 1, 2, 3]
    ),
    "tool servers are classmethods `toolsets` of task sets and tasks": lambda: (
        takes(vf.Taskset.toolsets, "config") and takes(vf.Task.toolsets, "config")
    ),
}
"""What is relied on, and how it shows."""


@pytest.mark.parametrize("what", PROTOCOL)
def test_verifiers_still_has_what_its_environments_are_played_by(what: str) -> None:
    assert PROTOCOL[what](), f"verifiers has changed: {what}"
