"""What a script may give to a module, and how anything else is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from lightning.pytorch import LightningDataModule, Trainer
from lightrl_workshop import quiet_trainer

from lightrl import DigitSorting, ExactMatch, LoadedPolicy, PolicyOptimization, PromptData, TinyPolicy, TransformersEngine
from lightrl.callbacks.alarms import Alarms
from lightrl.registry.classes import core
from lightrl.training.policy_module import NoDefaultCallbacks

WATCHING = [cls for _, cls in core().registered("callback") if getattr(cls, "in_every_run", False)]


def short(completion: str) -> float:
    return 1 / (1 + len(completion))


def listed(completions: list[str], **kwargs: Any) -> list[float]:
    return [1 / (1 + len(completion)) for completion in completions]


GOOD: dict[str, Any] = {"policy": TinyPolicy(hidden=16, layers=1), "algorithm": "GRPO", "rewards": {"short": short}}


def module(**given: Any) -> PolicyOptimization:
    return PolicyOptimization(**{**GOOD, "prompts_per_rollout": 2, "engine": TransformersEngine(max_new_tokens=4), **given})


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("policy", 3, 'policy must be a folder, a hub id or a policy source, got int 3.\nType for example policy="'),
        ("policy", torch.nn.Linear(2, 2), "got Linear Linear("),
        ("policy", TinyPolicy, "got the class TinyPolicy, and not an object of it"),
        ("algorithm", 3, 'algorithm must be a name, or an algorithm, got int 3.\nType for example algorithm="GRPO"'),
        ("algorithm", None, "algorithm must be a name, or an algorithm, got NoneType None"),
        ("rewards", short, "rewards must be rewards by name, got function <function short"),
        ("rewards", [ExactMatch()], "rewards must be rewards by name, got list [ExactMatch("),
        ("rewards", {"a": 1.0}, "rewards['a'] must be a reward, a function or its import path, got float 1.0"),
        ("rewards", {"a": ExactMatch}, "rewards['a'] must be a reward, a function or its import path, got the class ExactMatch"),
        ("engine", "vllm", "engine must be a rollout engine, got str 'vllm'"),
        ("environment", "game", "environment must be an environment, got str 'game'"),
    ],
)  # fmt: skip
def test_a_wrong_type_is_refused_in_two_lines(argument: str, value: object, message: str) -> None:
    with pytest.raises(TypeError) as error:
        module(**{argument: value})
    assert message in str(error.value)
    assert len(str(error.value).splitlines()) == 2


def test_a_reward_is_named_by_its_class_as_in_a_config() -> None:
    assert type(module(rewards={"right": "ExactMatch"}).collector.rewards.rewards["right"]) is ExactMatch
    with pytest.raises(ValueError, match=r"rewards\['right'\]: no reward is named 'ExactMtch'.* Did you mean 'ExactMatch'"):
        module(rewards={"right": "ExactMtch"})


def test_a_model_that_is_loaded_is_pointed_to_its_source() -> None:
    with pytest.raises(TypeError, match=r"Type policy=LoadedPolicy\(model, tokenizer\)"):
        module(policy=TinyPolicy(hidden=16, layers=1).build().model)
    with pytest.raises(TypeError, match="tokenizer must be one, got NoneType"):
        LoadedPolicy(TinyPolicy(hidden=16, layers=1).build().model, None)  # type: ignore[arg-type]


def test_a_name_that_nobody_registers_is_answered_as_in_a_config() -> None:
    with pytest.raises(ValueError, match=r"no algorithm is named 'GRPOO'\. Did you mean 'GRPO'"):
        module(algorithm="GRPOO")


def test_data_of_another_kind_is_refused_in_two_lines() -> None:
    class Other(LightningDataModule):
        def train_dataloader(self) -> list[int]:
            return [1]

    with pytest.raises(TypeError, match=r"datamodule must be a PromptData or of a subclass, got Other\.\nType for example"):
        quiet_trainer(max_epochs=1).fit(module(), datamodule=Other())


@pytest.mark.parametrize("function", [short, listed, lambda completion: float(len(completion))])
def test_a_loaded_model_and_a_function_are_trained_with(function: Callable[..., Any]) -> None:
    tiny = TinyPolicy(hidden=16, layers=1).build()
    before = {name: weight.clone() for name, weight in tiny.model.state_dict().items()}
    subject = module(
        policy=LoadedPolicy(tiny.model, tiny.tokenizer), rewards={"own": function}, optimizer=lambda p: torch.optim.SGD(p, lr=1.0)
    )
    quiet_trainer(max_epochs=2).fit(subject, datamodule=PromptData(train=DigitSorting(examples=20)))
    assert any(not torch.equal(weight, before[name]) for name, weight in tiny.model.state_dict().items())
    assert "rewards/own/mean" in subject.numbers


def fitted(tmp_path: Any, callbacks: list[Any]) -> Trainer:
    trainer = Trainer(
        default_root_dir=tmp_path, max_epochs=1, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, callbacks=callbacks,
    )  # fmt: skip
    trainer.fit(module(), datamodule=PromptData(train=DigitSorting(examples=20)))
    return trainer


def test_a_script_is_watched(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    mine = Alarms(zero_variance=0.5)
    trainer = fitted(tmp_path, [mine])
    classes = [type(callback) for callback in trainer.callbacks]
    assert len(WATCHING) == 9
    assert all(classes.count(cls) == 1 for cls in WATCHING)
    assert mine in trainer.callbacks
    assert "GRPO: 1 rollouts" in capsys.readouterr().err


def test_a_script_can_be_left_alone(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    trainer = fitted(tmp_path, [NoDefaultCallbacks()])
    assert not {type(callback) for callback in trainer.callbacks} & set(WATCHING)
    assert "rollouts" not in capsys.readouterr().err


def test_a_checkpoint_is_for_the_trainer() -> None:
    with pytest.raises(
        TypeError, match=r"Make the module as for the run, and type\ntrainer.fit\(module, datamodule=data, ckpt_path=PATH\)"
    ):
        PolicyOptimization.load_from_checkpoint("run.ckpt")
