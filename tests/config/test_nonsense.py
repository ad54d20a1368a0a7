"""Values that no run can use are refused by `check` and `fit` alike, with their key; those that are only absurd are warned of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from lightrl import TinyPolicy

CYCLE = {"class_path": "OneCycleLR", "init_args": {"max_lr": 1e-3, "total_steps": 8}}
HEAVY = {"class_path": "KLPenalty", "init_args": {"loss_coefficient": 1e30}}
REFUSED: dict[str, tuple[str, Any, list[str]]] = {
    "gradients scaled to nothing": ("model.max_grad_norm", 0, ["model.max_grad_norm", "float > 0 or null"]),
    "gradients scaled uphill": ("model.max_grad_norm", -1.0, ["model.max_grad_norm", "float > 0 or null"]),
    "a policy without layers": ("model.policy.init_args.layers", 0, ["model.policy.layers", "1 <= int <= 128"]),
    "a policy without width": ("model.policy.init_args.hidden", -16, ["model.policy.hidden", "got -16"]),
    "a group of a million": (
        "model.algorithm.init_args.sampler.init_args.group_size",
        10**6,
        ["sampler.group_size", "int <= 65,536, got 1000000"],
    ),
    "a million passes over a rollout": ("model.algorithm.init_args.epochs", 10**6, ["model.algorithm.epochs", "int <= 10,000"]),
    "a weight of 1e38": ("model.rewards.correct", {"class_path": "ExactMatch", "init_args": {"weight": 1e38}}, ["correct.weight"]),
    "a KL of 1e30": ("model.algorithm.init_args.kl", HEAVY, ["model.algorithm.kl.loss_coefficient", "1e+15", "1e+30"]),
    "a number that is none": ("model.algorithm.init_args.clip.init_args.epsilon", float("nan"), ["clip.epsilon", "finite", "nan"]),
    "an infinite number": ("model.engine.temperature", float("inf"), ["model.engine.temperature", "finite", "inf"]),
    "an integer of 400 digits": ("model.prompts_per_rollout", 10**400, ["model.prompts_per_rollout", "64 bits"]),
    "null for a path": ("model.rewards.correct", {"class_path": "Function", "init_args": {"path": None}}, ["correct.path", "null", "str"]),
    "null for a yes or no": ("data.shuffle", None, ["data.shuffle", "null", "bool"]),
    "null for a number": ("model.prompts_per_rollout", None, ["model.prompts_per_rollout", "got None"]),
    "a negative learning rate": ("model.optimizer", {"lr": -1.0}, ["model.optimizer", "AdamW", "Invalid learning rate"]),
    "a learning rate that is none": ("model.optimizer", {"lr": float("nan")}, ["model.optimizer.lr", "finite"]),
    "a learning rate of 1e30": ("model.optimizer", {"lr": 1e30}, ["model.optimizer", "1e+30"]),
    "null for a learning rate": ("model.optimizer", {"lr": None}, ["model.optimizer.lr", "null"]),
    "an optimizer that wants a closure": ("model.optimizer", "LBFGS", ["model.optimizer", "LBFGS", "closure"]),
    "a schedule below 0": ("model.lr_scheduler", {**CYCLE, "init_args": {**CYCLE["init_args"], "max_lr": -1.0}}, ["model.lr_scheduler"]),
    "a schedule without end": ("model.lr_scheduler", {**CYCLE, "init_args": {**CYCLE["init_args"], "max_lr": float("inf")}}, ["max_lr"]),
    "a share that is none": (
        "model.lr_scheduler",
        {**CYCLE, "init_args": {**CYCLE["init_args"], "pct_start": float("nan")}},
        ["pct_start"],
    ),
    "a schedule that needs a loss": (
        "model.lr_scheduler",
        {"class_path": "ReduceLROnPlateau", "init_args": {"monitor": "loss"}},
        ["no learning rate scheduler is named"],
    ),
    "validation after more batches than a float can count": ("trainer.val_check_interval", 10**400, ["trainer", "too large"]),
    "validation after every 0 rollouts": ("trainer.check_val_every_n_epoch", 0, ["trainer.check_val_every_n_epoch", "int >= 1"]),
    "gradients added up a second time": ("trainer.accumulate_grad_batches", 2, ["accumulate_grad_batches", "micro_batch_tokens"]),
    "no training batch": ("trainer.limit_train_batches", 0, ["trainer.limit_train_batches", "got 0"]),
    "more than all batches": ("trainer.limit_train_batches", 1.5, ["trainer.limit_train_batches", "got 1.5"]),
    "epochs that are cut short": ("trainer.limit_train_batches", 0.5, ["limit_train_batches", "max_steps"]),
    "validation after more batches than there are": ("trainer.val_check_interval", 7, ["val_check_interval"]),
    "an integer of 400 digits on the way to a float": ("model.optimizer", {"weight_decay": 10**400}, ["weight_decay", "64 bits"]),
    "two billion devices": ("trainer.devices", 2**31, ["trainer.devices", "2147483648"]),
    "two billion devices as a text": ("trainer.devices", "2147483648", ["trainer.devices", "2147483648"]),
    "a negative seed": ("seed_everything", -1, ["seed_everything", "got -1"]),
    "matrices multiplied in no way that torch has": ("float32_matmul_precision", "tf32", ["float32_matmul_precision", "high"]),
    "a run of no length": ("trainer.max_steps", 0, ["trainer.max_steps", "got 0"]),
    "an alarm that no reward decides": (
        "model.algorithm.init_args.sampler",
        {"class_path": "DynamicSampler", "init_args": {"metric": "nobody"}},
        ["model.algorithm.sampler", "'nobody'", "correct"],
    ),
    "completions without room": ("model.engine.max_new_tokens", 600, ["max_new_tokens", "512"]),
    "weights of another precision": ("trainer.precision", "bf16-true", ["trainer.precision", "model.policy.dtype"]),
    "characters that the policy does not know": ("model.policy.init_args.alphabet", "abc", ["cannot be encoded"]),
    "prompts that ranks cannot read": ("data.max_prompt_tokens", 2, ["data", "none is left"]),
}
FOLDERS: dict[str, tuple[str, Any, list[str]]] = {
    "a critic that reads other tokens": (
        "critic",
        {"class_path": "ValueModel", "init_args": {"path": "other"}},
        ["model.algorithm.critic", "24"],
    ),
    "a critic that is not there": ("critic", {"class_path": "ValueModel", "init_args": {"path": "nowhere"}}, ["model.algorithm.critic"]),
    "a reference without adapters": ("reference", "BaseReference", ["model.algorithm.reference", "LoraPolicy"]),
}
UNUSUAL: dict[str, tuple[str, Any, str]] = {
    "a cold policy": ("model.engine.temperature", 1e-30, "model.engine.temperature is 1e-30"),
    "a heavy reward": ("model.rewards.correct", {"class_path": "ExactMatch", "init_args": {"weight": 1e9}}, "correct.weight is 1e+09"),
    "a heavy KL": (
        "model.algorithm.init_args.kl",
        {"class_path": "KLPenalty", "init_args": {"loss_coefficient": 1e9}},
        "loss_coefficient is 1e+09",
    ),
    "a large group": ("model.algorithm.init_args.sampler.init_args.group_size", 4096, "sampler.group_size is 4096"),
    "a fast learner": ("model.optimizer", {"lr": 100.0}, "the learning rate reaches 100"),
    "a policy that stands still": ("model.optimizer", {"lr": 0.0}, "the learning rate is 0 in every step"),
    "more prompts than there are": ("model.prompts_per_rollout", 200, "there are 92 training prompts"),
}


def changed(config: dict[str, Any], key: str, value: Any) -> str:
    """The config with a value at a key, as YAML."""
    node = config
    *parents, last = key.split(".")
    for name in parents:
        node = node.setdefault(name, {})
    node[last] = value
    return yaml.safe_dump(config)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", REFUSED)
def test_nonsense_is_refused_by_check_and_by_fit(
    lightrl: Callable[..., Any], write: Callable[..., Any], config: dict[str, Any], case: str
) -> None:
    key, value, wanted = REFUSED[case]
    path = write("nonsense.yaml", changed(config, key, value))
    for verb in ("check", "fit"):
        answer = lightrl(verb, "--config", str(path))
        assert answer.status == 2, f"{verb}: {answer.out}"
        assert all(word in answer.err for word in wanted), answer.err
        assert "Traceback" not in answer.err
        assert len(answer.lines) <= 3, answer.err


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", FOLDERS)
def test_check_asks_the_parts_whether_the_policy_suits_them(
    lightrl: Callable[..., Any], write: Callable[..., Any], config: dict[str, Any], case: str
) -> None:
    slot, value, wanted = FOLDERS[case]
    TinyPolicy(hidden=16, layers=1, heads=2, alphabet="0123456789=abc").build().save(Path("other"))
    penalty = {"class_path": "KLPenalty", "init_args": {"reward_coefficient": 0.1}}
    config["model"]["algorithm"] = {"class_path": "PPO", "init_args": {"kl": penalty, slot: value}}
    path = write("unfit.yaml", config)
    for verb in ("check", "fit"):
        answer = lightrl(verb, "--config", str(path))
        assert answer.status == 2, f"{verb}: {answer.out}"
        assert all(word in answer.err for word in wanted), answer.err


def test_check_asks_environment_and_rewards_whether_the_data_suit_them(
    lightrl: Callable[..., Any], write: Callable[..., Any], config: dict[str, Any]
) -> None:
    by_column = {"class_path": "EnvironmentByColumn", "init_args": {"environments": {"one": "SingleTurn"}, "column": "puzzle"}}
    from_folder = {"class_path": "RewardModel", "init_args": {"path": "./nowhere"}}
    config["model"] |= {"environment": by_column}
    write("columns.yaml", config)
    config["model"] |= {"environment": "SingleTurn", "rewards": {"learned": from_folder}}
    write("folder.yaml", config)
    for name, said in (("columns", "the column 'puzzle', which the prompts lack"), ("folder", "there is no folder './nowhere'")):
        for verb in ("check", "fit"):
            answer = lightrl(verb, "--config", f"{name}.yaml")
            assert answer.status == 2, answer.out
            assert said in answer.err


@pytest.mark.parametrize("case", UNUSUAL)
def test_what_is_only_absurd_is_a_warning_of_check(
    lightrl: Callable[..., Any], write: Callable[..., Any], config: dict[str, Any], case: str, recwarn: pytest.WarningsRecorder
) -> None:
    key, value, said = UNUSUAL[case]
    answer = lightrl("check", "--config", str(write("absurd.yaml", changed(config, key, value))))
    assert answer.status == 0, answer.err
    assert said in answer.err + " ".join(str(warning.message) for warning in recwarn)


def test_a_greedy_evaluation_is_not_unusual(lightrl: Callable[..., Any], write: Callable[..., Any], config: dict[str, Any]) -> None:
    answer = lightrl("check", "--config", str(write("greedy.yaml", changed(config, "model.evaluation.temperature", 0))))
    assert answer.status == 0, answer.err
    assert "unusual" not in answer.err


def test_a_range_is_shown_in_help(lightrl: Callable[..., Any]) -> None:
    out = lightrl("fit", "--model.algorithm", "GRPO", "--model.algorithm.clip.help", "SymmetricClip").out
    assert "Ranges: 0 < epsilon < 1" in out
    assert "0 < float < 1" in lightrl("explain", "SymmetricClip").out
    assert "max_grad_norm > 0 or null" in lightrl("fit", "--help").out


@pytest.mark.parametrize("text", ["a: " + "[" * 5000, "rollouts: " + "9" * 5000], ids=["nested", "digits"])
def test_a_config_that_yaml_cannot_hold_is_refused(lightrl: Callable[..., Any], write: Callable[..., Any], text: str) -> None:
    answer = lightrl("check", "--config", str(write("deep.yaml", text)))
    assert answer.status == 2
    assert "deep.yaml" in answer.err
    assert len(answer.lines) <= 3
