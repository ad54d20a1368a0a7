"""A wrong request takes at most three lines: the key, what was wrong, what exists or what to type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from lightrl.config.read.refusals import LINES, ConfigError

CASES = {
    "unknown top-level key": (["--modle.x", "3"], "modle", "Did you mean 'model'?"),
    "unknown module argument": (["--model.prompts_per_rolout", "3"], "model.prompts_per_rolout", "Did you mean 'prompts_per_rollout'?"),
    "unknown part argument": (["--model.algorithm.kl.loss_coeficient", "3"], "model.algorithm.kl.loss_coeficient", "'loss_coefficient'"),
    "unknown slot": (["--model.algorithm.clp", "x"], "model.algorithm.clp", "Did you mean 'clip'?"),
    "unknown trainer argument": (["--trainer.max_epocs", "3"], "trainer.max_epocs", "Did you mean 'max_epochs'?"),
    "unknown data argument": (["--data.trian", "x"], "data.trian", "Did you mean 'train'?"),
    "unknown record field": (["--model.evaluation.sampels", "3"], "model.evaluation.sampels", "Did you mean 'samples'?"),
    "misspelt part": (["--model.algorithm.clip", "DecoupledClipp"], "model.algorithm.clip", "Did you mean 'DecoupledClip'?"),
    "misspelt algorithm": (["--model.algorithm", "GRPPO"], "model.algorithm", "Did you mean 'GRPO'?"),
    "letters that have changed places": (["--model.algorithm", "GPRO"], "model.algorithm", "Did you mean 'GRPO'?"),
    "misspelt reward": (["--model.rewards.a", "ExactMach"], "model.rewards.a", "Did you mean 'ExactMatch'?"),
    "misspelt optimizer": (["--model.optimizer", "SDG"], "model.optimizer", "Did you mean 'SGD'?"),
    "misspelt module": (["--model", "SupervisedFineTunin"], "model", "Did you mean 'SupervisedFineTuning'?"),
    "misspelt logger": (["--trainer.logger", "TensorBoardLoger"], "trainer.logger", "Did you mean 'TensorBoardLogger'?"),
    "misspelt callback": (["--trainer.callbacks+=EarlyStoppin"], "trainer.callbacks", "Did you mean 'EarlyStopping'?"),
    "misspelt callback in YAML": (["--trainer.callbacks", "[{class_path: ExportPolic}]"], "trainer.callbacks", "'ExportPolicy'?"),
    "unknown argument of a callback": (
        ["--trainer.callbacks", "[{class_path: EarlyStopping, init_args: {monitr: x}}]"], "trainer.callbacks", "'monitr' is not accepted",
    ),
    "a logger that cannot be imported": (["--trainer.logger", "no.such.Logger"], "trainer.logger", "No module named 'no'"),
    "a number for a record": (["--model.evaluation", "3"], "model.evaluation", "expected a mapping of samples"),
    "bad YAML in a word": (["--model.algorithm", "{bad: ["], "model.algorithm", "bad YAML"),
    "+= on what is no list": (["--model.algorithm+=GRPO"], "model.algorithm", "+= adds to a list"),
    "a part of another kind": (["--model.algorithm.clip", "lightrl.GAE"], "model.algorithm.clip", "no clip scheme"),
    "an abstract part": (["--model.algorithm.clip", "lightrl.ClipScheme"], "model.algorithm.clip", "does not write surrogate"),
    "wrong type": (["--model.algorithm.clip.epsilon", "abc"], "model.algorithm.clip.epsilon", "expected 0 < float < 1, got 'abc'"),
    "wrong literal": (["--model.algorithm.kl.estimator", "k3_straigt"], "model.algorithm.kl.estimator", "Did you mean 'k3_straight"),
    "wrong type of the trainer": (["--trainer.max_steps", "abc"], "trainer.max_steps", "expected -1 or int >= 1, got 'abc'"),
    "wrong seed": (["--seed_everything", "abc"], "seed_everything", "expected bool or int"),
    "not a mapping": (["--model.rewards", "ExactMatch"], "model.rewards", "mapping"),
    "null where a part must be": (["--model.algorithm.clip", "null"], "model.algorithm.clip", "cannot be null"),
    "argument of an empty slot": (["--model.algorithm.token_weight.x", "1"], "model.algorithm.token_weight", "MaskTruncated"),
    "part refuses its argument": (["--model.algorithm.clip.epsilon", "3"], "model.algorithm.clip.epsilon", "0 < float < 1"),
    "source refuses its argument": (["--data.train.examples", "0"], "data.train", "0"),
    "policy refuses its argument": (["--model.policy.hidden", "17"], "model.policy", "divisible"),
    "bundle refuses its parts": (["--model.algorithm.critic", "ValueHead"], "model.algorithm", "set critic to null"),
    "module refuses its sizes": (["--model.prompts_per_rollout", "0"], "model.prompts_per_rollout", "0"),
    "function that is not there": (["--model.rewards.a", "os.path.joyn"], "model.rewards.a", "joyn"),
    "missing argument of a part": (["--model.policy", "PretrainedPolicy"], "model.policy.path", "--model.policy.path"),
    "missing policy folder": (["--model.policy", "PretrainedPolicy", "--model.policy.path", "./no"], "model.policy", "no folder"),
    "missing data file": (["--data.train", "JsonLines", "--data.train.path", "no.jsonl"], "data.train", "no file 'no.jsonl'"),
    "missing checkpoint": (["--ckpt_path", "no.ckpt"], "ckpt_path", "no checkpoint 'no.ckpt'"),
    "no last checkpoint": (["--ckpt_path", "last"], "ckpt_path", "no checkpoint below"),
    "both lengths": (["--trainer.max_epochs", "7"], "rollouts", "contradict"),
    "no rollouts": (["--rollouts", "0"], "rollouts", "1 or more"),
    "clipping by the trainer": (["--trainer.gradient_clip_val", "1"], "trainer.gradient_clip_val", "--model.max_grad_norm"),
    "the trainer refuses": (["--trainer.devices", "abc"], "trainer", "devices"),
    "no such strategy": (["--trainer.strategy", "ddpp"], "trainer.strategy", "Did you mean 'ddp'?"),
    "a strategy of Lightning's that is not ours": (["--trainer.strategy", "fsdp"], "trainer.strategy", "Did you mean 'fsdp2'?"),
    "float16 by another name": (["--trainer.precision", "fp16"], "trainer.precision", "--trainer.precision bf16-mixed"),
    "no such precision": (["--trainer.precision", "bf17"], "trainer.precision", "expected '32-true' or 'bf16-mixed'"),
    "option without value": (["--model.seed"], "--model.seed", "a value must follow"),
    "a stray word": (["stray"], "unexpected word 'stray'", "--KEY VALUE"),
    "help of a plain value": (["--model.seed.help"], "model.seed", "plain value"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_request(lightrl: Callable[..., Any], case: str) -> None:
    words, key, hint = CASES[case]
    answer = lightrl("fit", "--config", "run.yaml", *words)
    assert answer.status == 2
    lines = [line for line in answer.lines if not line.startswith(("dropped:", "Seed set", "GPU", "TPU", "💡"))]
    assert lines[0].startswith(key)
    assert hint in answer.err
    assert len(lines) <= LINES
    assert "Traceback" not in answer.err


@pytest.mark.parametrize(
    ("words", "first", "others"),
    [
        # values are read once the classes are there, and unknown keys are told before
        ("--model.prompts_per_rolout 4 --trainer.max_step 3", "model.prompts_per_rolout", "trainer.max_step"),
        ("--model.prompts_per_rollout x --trainer.max_steps abc", "model.prompts_per_rollout", "trainer.max_steps, model.algorithm.clip"),
    ],
)
def test_every_key_that_is_wrong_is_named_once(lightrl: Callable[..., Any], words: str, first: str, others: str) -> None:
    clip = ["--model.algorithm.clip", "DecoupledClipp", "--model.algorithm.clip.low", "0.1"]
    answer = lightrl("fit", "--config", "run.yaml", *words.split(), *clip)
    assert answer.status == 2
    assert answer.lines[0].startswith(f"{first}: ")
    assert f" Wrong too: {others}." in answer.lines[0]
    assert len(answer.lines) <= LINES


def test_a_number_as_a_key_of_the_trainer_is_refused(
    lightrl: Callable[..., Any], write: Callable[..., Any], config: dict[str, Any]
) -> None:
    write("run.yaml", config | {"trainer": {1: 2}})
    answer = lightrl("fit", "--config", "run.yaml")
    assert answer.status == 2
    assert answer.err.startswith("trainer: a name in a mapping is a visible text, got 1;")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_missed_in_words(lightrl: Callable[..., Any]) -> None:
    answer = lightrl("fit", "--config", "run.yaml", "--trainer.accelerator", "gpu", "--trainer.devices", "8")
    assert answer.status == 2
    assert "trainer.accelerator: 'gpu' needs a GPU, and torch finds none" in answer.err
    assert "--trainer.accelerator auto" in answer.lines[-1]


def test_notes_on_dropped_values_stand_above_no_error(lightrl: Callable[..., Any]) -> None:
    switched = ["--model.algorithm", "DAPO"]
    refused = lightrl("fit", "--config", "run.yaml", *switched, "--trainer.strategy", "ddpp")
    assert refused.status == 2
    assert "dropped:" not in refused.err
    assert "dropped: model.algorithm.clip" in lightrl("check", "--config", "run.yaml", *switched).err


@pytest.mark.parametrize(("section", "name"), [("model", "policy"), ("model", "algorithm"), ("data", "train")])
def test_what_is_missing_is_named_with_what_to_type(
    lightrl: Callable[..., Any], write: Callable[..., Any], config: dict[str, Any], section: str, name: str
) -> None:
    del config[section][name]
    write("less.yaml", config)
    answer = lightrl("fit", "--config", "less.yaml")
    assert answer.status == 2
    assert answer.err.startswith(f"{section}.{name}: not given")
    assert f"Type for example: --{section}.{name}" in answer.err
    assert len(answer.lines) <= LINES


def test_rewards_may_be_missing_only_where_the_environment_gives_some(
    lightrl: Callable[..., Any], write: Callable[..., Any], config: dict[str, Any]
) -> None:
    del config["model"]["rewards"]
    write("less.yaml", config)
    answer = lightrl("fit", "--config", "less.yaml")
    assert answer.status == 2
    assert answer.err.startswith("model.rewards is empty: name at least one reward")
    assert len(answer.lines) <= LINES


def test_an_empty_command_names_all_that_is_missing(lightrl: Callable[..., Any]) -> None:
    answer = lightrl("fit")
    assert answer.status == 2
    assert all(key in answer.lines[0] for key in ("model.policy", "model.algorithm", "data.train", "rollouts"))


def test_a_misspelt_file_and_a_missing_folder(lightrl: Callable[..., Any]) -> None:
    close = lightrl("fit", "--config", "runn.yaml")
    assert close.status == 2
    assert "Did you mean 'run.yaml'?" in close.err
    assert "There is no folder 'nowhere' either" in lightrl("fit", "--config", "nowhere/run.yaml").err


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("model:\n  policy: [1,\ntrainer: x: y\n", "bad.yaml:3", "expected"),
        ("model:\n  seed: 1\n  seed: 2\n", "bad.yaml:3", "the key 'seed' stands twice"),
        ("just text\n", "bad.yaml", "a config is a mapping"),
        ("", "bad.yaml", "empty"),
        ("model: 3\n", "model", "mapping"),
        ("model:\n  algorithm: {class_path: GRPO, epochs: 2}\n", "model.algorithm.epochs", "init_args"),
    ],
)
def test_bad_files(lightrl: Callable[..., Any], write: Callable[..., Any], text: str, where: str, what: str) -> None:
    write("bad.yaml", text)
    answer = lightrl("fit", "--config", "bad.yaml")
    assert answer.status == 2
    assert answer.err.startswith(where)
    assert what in answer.err
    assert len(answer.lines) <= LINES


def test_an_unexpected_error_keeps_its_traceback(lightrl: Callable[..., Any], write: Callable[..., Any]) -> None:
    write(
        "setup_bug.py",
        "from lightning.pytorch import Callback\nclass Bug(Callback):\n    def setup(self, *args, **kwargs):\n        int('x')\n",
    )
    with pytest.raises(ValueError, match="invalid literal"):
        lightrl("fit", "--config", "run.yaml", "--trainer.logger", "false", "--trainer.callbacks+=setup_bug.Bug")


def test_long_messages_are_cut_and_counted() -> None:
    error = ConfigError("key", "one\ntwo\nthree\nfour\nfive")
    assert error.lines() == ["key: one", "two", "three (and 2 more lines)"]
