"""The configs of `configs/` with a tiny policy and tiny data in place of paths, small enough for a rollout in a second."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import yaml

from benchmarks import config_files
from lightrl import TinyPolicy
from lightrl.policy.reward_network import RewardNetwork

CHARACTERS = string.ascii_letters + string.digits + string.punctuation + " \n"
TEMPLATE = "{% for message in messages %}{{ message['content'] }}|{% endfor %}"
MOST = {
    "hidden": 16,
    "layers": 1,
    "heads": 2,
    "prompts_per_rollout": 4,
    "batch_size": 4,
    "group_size": 2,
    "epochs": 2,
    "minibatches": 2,
    "max_new_tokens": 6,
    "validation_size": 4,
    "examples": 64,
    "rollouts": 1,
    "warmup_rollouts": 1,
    "max_steps": 3,
    "size": 64,
}
"""The largest value that a key keeps."""
VARIED = {"path": "lightrl_workshop.toy.small_digits", "runs": "inline"}
"""A reward that differs within the groups of a policy that has learnt nothing."""
TRAINER = {"accelerator": "cpu", "devices": 1, "enable_progress_bar": False, "enable_model_summary": False}


def write_inputs(folder: Path) -> None:
    """Write what stands behind the paths: a policy, a reward model and a file of questions.

    Args:
        folder: is made.
    """
    policy = TinyPolicy(hidden=16, layers=1, heads=2, alphabet=CHARACTERS, max_positions=256).build()
    RewardNetwork(policy).save(folder / "reward_model")
    policy.tokenizer.chat_template = TEMPLATE
    policy.save(folder / "policy")
    rows = [{"question": f"What is {n} + {n + 1}?", "answer": f"#### {2 * n + 1}"} for n in range(24)]
    (folder / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def tiny_configs(folder: Path) -> dict[str, dict[str, Any]]:
    """Every config by its name.

    Args:
        folder: that `write_inputs` has filled.
    """
    return {name: _tiny(yaml.safe_load(file.read_text()), folder) for name, file in config_files().items()}


def _tiny(config: dict[str, Any], folder: Path) -> dict[str, Any]:
    small: dict[str, Any] = _smaller(config, folder)
    small["trainer"] = {**small["trainer"], **TRAINER}
    model = small["model"].get("init_args", small["model"]) if "class_path" in small["model"] else small["model"]
    if "algorithm" in model:
        model["rewards"] = _varied(model.get("rewards"))
    return small


def _varied(rewards: dict[str, Any] | None) -> dict[str, Any] | None:
    if rewards is None or "correct" not in rewards:
        return rewards
    weight = rewards["correct"].get("init_args", {}).get("weight", 1.0) if isinstance(rewards["correct"], dict) else 1.0
    return {**rewards, "correct": {"class_path": "Function", "init_args": {**VARIED, "weight": weight}}}


def _smaller(value: Any, folder: Path) -> Any:
    if isinstance(value, list):
        return [_smaller(item, folder) for item in value]
    if not isinstance(value, dict):
        return value
    small = {key: _smaller(item, folder) for key, item in value.items()}
    small |= {
        key: min(item, MOST[key]) for key, item in small.items() if key in MOST and isinstance(item, int) and not isinstance(item, bool)
    }
    if "path" in small and isinstance(small["path"], str):
        name = "reward_model" if "reward_model" in small["path"] else "questions.jsonl" if small["path"].endswith("jsonl") else "policy"
        small["path"] = str(folder / name)
    return small
