"""Every form of override reaches the resolved config."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

CLIP = "lightrl.parts.clip.DecoupledClip"


@pytest.mark.parametrize(
    ("words", "key", "value"),
    [
        (["--model.algorithm.clip.epsilon", "0.3"], "model.algorithm.clip.epsilon", 0.3),
        (["--model.algorithm.clip.epsilon=1e-1"], "model.algorithm.clip.epsilon", 0.1),
        (["--model.algorithm.init_args.clip.init_args.epsilon", "0.3"], "model.algorithm.clip.epsilon", 0.3),
        (["--model.algorithm.clip", "DecoupledClip"], "model.algorithm.clip.class_path", CLIP),
        (["--model.algorithm.clip", "lightrl-core:DecoupledClip"], "model.algorithm.clip.class_path", CLIP),
        (["--model.algorithm.clip", CLIP], "model.algorithm.clip.class_path", CLIP),
        (["--model.algorithm.clip", "{class_path: DecoupledClip, init_args: {high: 0.4}}"], "model.algorithm.clip.high", 0.4),
        (["--model.algorithm.clip", "DecoupledClip", "--model.algorithm.clip.high", "0.3"], "model.algorithm.clip.high", 0.3),
        (["--model.algorithm.kl", "null"], "model.algorithm.kl", None),
        (["--model.algorithm.kl.estimator", "k2"], "model.algorithm.kl.loss_coefficient", 0.04),
        (["--model.algorithm.kl.controller", "AdaptiveKL"], "model.algorithm.kl.controller.target", 6.0),
        (["--model.algorithm.kl.controller", "AdaptiveKL", "--model.algorithm.kl.controller.target", "3"],
         "model.algorithm.kl.controller.target", 3.0),
        (["--model.algorithm.epochs", "2"], "model.algorithm.epochs", 2),
        (["--model.algorithm.entropy", "EntropyBonus"], "model.algorithm.entropy.coefficient", 0.001),
        (["--model.optimizer.lr", "1e-4"], "model.optimizer.lr", 1e-4),
        (["--model.optimizer.lr", "1e-4"], "model.optimizer.weight_decay", 0.0),
        (["--model.optimizer", "SGD", "--model.optimizer.lr", "0.1"], "model.optimizer.class_path", "torch.optim.SGD"),
        (["--model.optimizer", "torch.optim.SGD", "--model.optimizer.lr", "0.1"], "model.optimizer.lr", 0.1),
        (["--model.lr_scheduler", "LinearLR", "--model.lr_scheduler.total_iters", "7"], "model.lr_scheduler.total_iters", 7),
        (["--model.evaluation.samples", "3"], "model.evaluation.samples", 3),
        (["--model.engine.stop+=a", "--model.engine.stop+=b"], "model.engine.stop", ["a", "b"]),
        (["--model.policy.alphabet", "0123456789="], "model.policy.alphabet", "0123456789="),
        (["--model.policy.alphabet", "123"], "model.policy.alphabet", "123"),
        (["--model.micro_batch_tokens", "null"], "model.micro_batch_tokens", None),
        (["--data.train", "Reversal"], "data.train.class_path", "lightrl.data.tasks.Reversal"),
        (["--data.train.length", "5"], "data.train.length", 5),
        (["--trainer.log_every_n_steps", "5"], "trainer.log_every_n_steps", 5),
        (["--trainer.logger", "false"], "trainer.logger", False),
        (["--trainer.logger.name", "mine"], "trainer.logger.name", "mine"),
        (["--rollouts", "7"], "rollouts", 7),
        (["--seed_everything", "5"], "seed_everything", 5),
        (["--float32_matmul_precision", "high"], "float32_matmul_precision", "high"),
        ([], "float32_matmul_precision", "highest"),
    ],
)  # fmt: skip
def test_an_override_takes_effect(resolved: Callable[..., Any], words: list[str], key: str, value: Any) -> None:
    assert resolved(*words).at(key) == value


def test_every_default_part_is_written_out(resolved: Callable[..., Any]) -> None:
    answer = resolved()
    assert answer.at("model.algorithm.kl.loss_coefficient") == 0.04  # GRPO's own default, which no file states
    assert answer.at("model.algorithm.clip.epsilon") == 0.1
    assert answer.at("model.engine.max_new_tokens") == 8


def test_what_suits_reinforcement_learning_is_the_default(resolved: Callable[..., Any]) -> None:
    answer = resolved()
    expected = {"log_every_n_steps": 1, "num_sanity_val_steps": 0, "use_distributed_sampler": False, "gradient_clip_val": None}
    assert {name: answer.at(f"trainer.{name}") for name in expected} == expected
    assert (answer.at("trainer.logger.save_dir"), answer.at("trainer.logger.name")) == ("runs", "run")


def test_the_printed_config_resolves_to_itself(
    resolved: Callable[..., Any], lightrl: Callable[..., Any], write: Callable[..., Any]
) -> None:
    first = resolved("--model.algorithm.clip", "DecoupledClip", "--model.rewards.digits", "ExactMatch")
    write("printed.yaml", first.out)
    again = lightrl("fit", "--config", "printed.yaml", "--trainer.logger.name", "run", "--print_config")
    assert again.config == first.config
    assert again.err == ""


def test_later_files_and_words_win(resolved: Callable[..., Any], write: Callable[..., Any]) -> None:
    write("overlay.yaml", {"model": {"prompts_per_rollout": 16, "algorithm": {"clip": {"epsilon": 0.25}}}})
    assert resolved("--config", "overlay.yaml").at("model.algorithm.clip.epsilon") == 0.25
    assert resolved("--config", "overlay.yaml").at("model.algorithm.sampler.group_size") == 4
    assert resolved("--config", "overlay.yaml", "--model.prompts_per_rollout", "8").at("model.prompts_per_rollout") == 8
    assert resolved("--model.prompts_per_rollout", "8", "--config", "overlay.yaml").at("model.prompts_per_rollout") == 16


def test_rewards_are_added_switched_and_removed(resolved: Callable[..., Any], write: Callable[..., Any]) -> None:
    write("my_rewards.py", "def short(completion: str) -> float:\n    return -float(len(completion))\n")
    function = resolved("--model.rewards.length", "my_rewards.short")
    assert set(function.at("model.rewards")) == {"correct", "length"}
    assert function.at("model.rewards.length.class_path") == "lightrl.parts.function.Function"
    assert function.at("model.rewards.length.path") == "my_rewards.short"
    weighted = resolved("--model.rewards.length", "{path: my_rewards.short, weight: 0.5}", "--model.rewards.correct.weight", "2")
    assert (weighted.at("model.rewards.length.weight"), weighted.at("model.rewards.correct.weight")) == (0.5, 2.0)
    by_class = resolved("--model.rewards.correct", "lightrl.parts.function.ExactMatch")
    assert by_class.at("model.rewards.correct.class_path") == "lightrl.parts.function.ExactMatch"
    without = resolved("--model.rewards.length", "my_rewards.short", "--model.rewards.correct", "null")
    assert set(without.at("model.rewards")) == {"length"}


def test_another_module_by_its_short_name(lightrl: Callable[..., Any], write: Callable[..., Any], config: dict[str, Any]) -> None:
    model = {"class_path": "SupervisedFineTuning", "init_args": {"policy": config["model"]["policy"]}}
    write("sft.yaml", {"model": model, "data": config["data"], "trainer": {"max_steps": 3}})
    answer = lightrl("fit", "--config", "sft.yaml", "--model.batch_size", "16", "--print_config")
    assert answer.status == 0, answer.err
    assert answer.config["model"]["class_path"] == "lightrl.training.offline.supervised.SupervisedFineTuning"
    assert answer.at("model.batch_size") == 16
    write("printed.yaml", answer.out)
    again = lightrl("fit", "--config", "printed.yaml", "--trainer.logger.name", "sft", "--print_config")
    assert again.config == answer.config


def test_callbacks_are_added_by_short_name(resolved: Callable[..., Any]) -> None:
    answer = resolved("--trainer.callbacks+=EarlyStopping", "--trainer.callbacks.monitor=reward", "--trainer.callbacks+=ExportPolicy")
    stopping, export = answer.at("trainer.callbacks")
    assert (stopping["class_path"], stopping["init_args"]["monitor"]) == ("lightning.pytorch.callbacks.EarlyStopping", "reward")
    assert export["class_path"] == "lightrl.callbacks.export_policy.ExportPolicy"


def test_the_folder_of_runs_can_be_moved(resolved: Callable[..., Any]) -> None:
    assert resolved("--trainer.default_root_dir", "elsewhere").at("trainer.logger.save_dir") == "elsewhere"
