"""Checkpoints of other configs, algorithms and optimizers: each is refused in a sentence, or resumed with a table of what differs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BASE = "{class_path: TinyPolicy, init_args: {hidden: 16, layers: 1}}"
REFUSED: dict[str, tuple[list[str], str]] = {
    "a wider policy": (["--model.policy.hidden", "32"], r"is of another model: policy.model.lm_head.weight is [24, 16] in it and [24, 32]"),
    "a deeper policy": (
        ["--model.policy.layers", "2"],
        "is of another model: policy.model.model.layers.1.input_layernorm",
    ),
    "another alphabet": (["--model.policy.alphabet", "0123456789="], "is of another model: policy.model.lm_head.weight"),
    "adapters": (["--model.policy", f"{{class_path: LoraPolicy, init_args: {{base: {BASE}}}}}"], "policy.base_hash is missing in it"),
    "an algorithm with a critic": (["--model.algorithm", "PPO"], "is of another model: critic.linear.bias is missing in it"),
    "an algorithm without KL": (["--model.algorithm", "DAPO"], "the checkpoint has state for ['kl'], which DAPO leaves empty"),
    "no KL": (["--model.algorithm.kl", "null"], "the checkpoint has state for ['kl'], which GRPO leaves empty"),
    "SGD": (["--model.optimizer", "SGD"], "model.optimizer: the checkpoint has the state of another optimizer than SGD, without dampening"),
    "Adagrad": (["--model.optimizer", "Adagrad"], "another optimizer than Adagrad, without "),
    "fewer prompts": (["--data.train.examples", "90"], "it was trained on 92 prompts and these are 82"),
    "another order": (["--data.seed", "7"], "its data.seed was 0 and is now 7"),
}
ALLOWED: dict[str, tuple[list[str], str]] = {
    "another seed": (["--seed_everything", "3"], "seed_everything"),
    "smaller groups": (["--model.algorithm.sampler.group_size", "2"], "group_size"),
    "a further reward": (["--model.rewards.more", "ExactMatch"], "rewards.more"),
    "other heads": (["--model.policy.heads", "2"], "model.policy.heads"),
    "a schedule": (["--model.lr_scheduler", "{class_path: torch.optim.lr_scheduler.ConstantLR}"], "lr_scheduler"),
}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first test puts the checkpoint of a run of two rollouts, for the others."""
    return tmp_path_factory.mktemp("written")


@pytest.fixture
def resumed(lightrl: Callable[..., Any], checkpoint: Path) -> Callable[..., Any]:
    """Resumes with these words, from the checkpoint of a run of two rollouts."""
    if not list(checkpoint.rglob("*.ckpt")):
        assert lightrl("fit", "--config", "run.yaml", "--trainer.default_root_dir", str(checkpoint)).status == 0
    path = next(checkpoint.rglob("*.ckpt"))
    return lambda *words: lightrl("fit", "--config", "run.yaml", "--rollouts", "3", *words, "--ckpt_path", str(path))


OFTEN = {"a wider policy", "an algorithm with a critic", "no KL", "SGD", "fewer prompts"}
"""The others are of the same kinds."""


@pytest.mark.parametrize("case", [case if case in OFTEN else pytest.param(case, marks=pytest.mark.thorough) for case in REFUSED])
def test_a_checkpoint_of_something_else_is_refused(resumed: Callable[..., Any], tmp_path: Path, case: str) -> None:
    words, said = REFUSED[case]
    answer = resumed(*words)
    assert answer.status == 2, answer.err
    assert said in answer.err
    assert "Traceback" not in answer.err
    assert not list(tmp_path.rglob("*.ckpt"))


@pytest.mark.thorough
@pytest.mark.parametrize("case", ALLOWED)
def test_what_may_differ_is_said_and_training_goes_on(resumed: Callable[..., Any], case: str) -> None:
    words, said = ALLOWED[case]
    answer = resumed(*words)
    assert answer.status == 0, answer.err
    assert said in answer.err.partition("Resumed with differences")[2]
