"""The protocol that TRL's trainer has for environment classes, read from the installed TRL; a failing test says what has changed."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path

import pytest

SPEC = importlib.util.find_spec("trl")
PROTOCOL = {
    "the argument environment_factory": ("__init__", "environment_factory: EnvironmentFactory | dict[str, EnvironmentFactory]"),
    "a class is built without arguments": ("__init__", "instance = factory()"),
    "tools are functions of the class, by name": ("__init__", "inspect.getmembers(type(instance), predicate=inspect.isfunction)"),
    "`reset` is no tool and must be there": ("__init__", 'if member_name == "reset": has_reset = True'),
    "`get_reward` is no tool": ("__init__", 'elif member_name == "get_reward": has_reward = True'),
    "names that begin with _ are no tools": ("__init__", 'elif not member_name.startswith("_"):'),
    "tools beside the class come first": ("__init__", "self._env_tools[name] = tools + methods"),
    "`get_reward` has no argument": ("__init__", "e.get_reward() if type(e) is _env_type"),
    "`get_reward` may be async": ("__init__", "inspect.iscoroutinefunction(instance.get_reward)"),
    "a run without data has an empty message of the user": ("__init__", '[[{"role": "user", "content": ""}]]'),
    "`reset` gets the row of the data": ("_generate_and_score_completions", "environment.reset(**reset_kwargs)"),
    "`reset` may return None": ("_generate_and_score_completions", "if observation is None: continue"),
    "the text of `reset` ends the prompt": ("_generate_and_score_completions", '{**prompt[-1], "content": content + observation}'),
    "tools may be async": ("_generate_and_score_completions", "inspect.iscoroutinefunction(tool)"),
    "reward functions get `environments`": ("_calculate_rewards", 'reward_kwargs["environments"] = self.environments'),
    "reward functions get columns, `prompts` and `completions`": ("_calculate_rewards", "prompts=prompts, completions=completions,"),
    "an exception of a tool is told to the policy": ("_tool_call_loop", 'result = {"error": str(e)}'),
    "a turn without a call ends the episode": ("_tool_call_loop", "while idxs_with_tool and iteration_num < self.max_tool_calling"),
}  # fmt: skip
"""What is relied on, the function of GRPOTrainer that does it, and its source there."""


def functions() -> dict[str, str]:
    """The source of each function of GRPOTrainer by name, comments left out and white space joined."""
    if SPEC is None or SPEC.origin is None:
        pytest.skip("TRL is not installed")
    source = (Path(SPEC.origin).parent / "trainer" / "grpo_trainer.py").read_text()
    (trainer,) = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == "GRPOTrainer"]
    found = {node.name: ast.get_source_segment(source, node) or "" for node in trainer.body if isinstance(node, ast.FunctionDef)}
    return {name: joined(text) for name, text in found.items()}


def joined(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"(?m)^\s*#.*$", "", text))


@pytest.mark.parametrize("what", PROTOCOL)
def test_trl_still_has_the_protocol_that_its_classes_are_read_by(what: str) -> None:
    function, source = PROTOCOL[what]
    known = functions()
    assert function in known, f"TRL has changed: GRPOTrainer.{function} is gone, so look where it does this now: {what}"
    assert source in known[function], f"TRL has changed, in GRPOTrainer.{function}: {what} ({source!r} is no longer there)"
