"""Alarms in real runs: what is told, where, how often, and that a resumed run remembers."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from lightrl_workshop import SmallDigits, quiet_trainer
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from lightrl import (
    ChosenLikelihood,
    DigitSorting,
    GroupRelative,
    GroupSampler,
    PolicyOptimization,
    PreferenceOptimization,
    Prompt,
    PromptData,
    RewardModeling,
    RowReward,
    SortedPairs,
    SupervisedFineTuning,
    TinyPolicy,
    TransformersEngine,
)
from lightrl.callbacks.alarms import QUIET, Alarms


class Digits(SmallDigits):
    """The share of digits below five, or the same for all."""

    def __init__(self, seen: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.seen = seen

    def score(self, prompt: Prompt, completion: str) -> float:
        return super().score(prompt, completion) if self.seen else 1.0


class Choking(Digits):
    """Fails on some completions."""

    def score(self, prompt: Prompt, completion: str) -> float:
        if sum(map(ord, completion)) % 3 == 0:
            raise ValueError("cannot read this")
        return super().score(prompt, completion)


def fit(
    tmp_path: Path, rollouts: int, reward: RowReward, alarms: Alarms, loggers: Any = False, ckpt_path: str | None = None, rate: float = 1e-3
) -> Trainer:
    module = PolicyOptimization(
        policy=TinyPolicy(hidden=16, layers=1, heads=2),
        algorithm=GroupRelative(sampler=GroupSampler(group_size=8), epochs=2),
        rewards={"digits": reward},
        engine=TransformersEngine(max_new_tokens=8),
        prompts_per_rollout=4,
        optimizer=lambda p: torch.optim.AdamW(p, lr=rate),
    )
    run = quiet_trainer(
        max_epochs=rollouts, callbacks=[alarms], num_sanity_val_steps=0, logger=loggers, log_every_n_steps=1, default_root_dir=tmp_path
    )
    run.fit(module, datamodule=PromptData(train=DigitSorting(examples=60)), ckpt_path=ckpt_path)
    return run


def limits(**changes: float) -> Alarms:
    """Alarms of which a random policy's untidy lengths raise none."""
    return Alarms(**{"truncation": 1.0, "length_reward": 1.0, **changes})  # type: ignore[arg-type]


def test_an_alarm_is_told_once_on_the_terminal_and_in_every_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    loggers = [TensorBoardLogger(tmp_path, name="tb"), CSVLogger(tmp_path, name="csv")]
    run = fit(tmp_path, 8, Digits(seen=False), limits(), loggers)
    told = " ".join(capfd.readouterr().err.split())
    assert told.count("Alarm zero_variance, rollout 5: in 100% of the groups of the last 5 rollouts all rewards were equal") == 1
    assert told.count("Alarm ") == 1
    assert "take harder ones" in told
    events = EventAccumulator(str(loggers[0].log_dir))
    events.Reload()
    [text] = events.Tensors("alarms/zero_variance/text_summary")
    [scalar] = events.Scalars("alarms/zero_variance")
    assert (text.step, scalar.step, scalar.value) == (5, 5, 1.0)
    assert "**Rollout 5:** in 100%" in text.tensor_proto.string_val[0].decode()
    with (Path(loggers[1].log_dir) / "metrics.csv").open() as file:
        assert [row["step"] for row in csv.DictReader(file) if row["alarms/zero_variance"]] == ["5"]
    assert run.state.finished


def test_a_resumed_run_remembers_what_it_has_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fit(tmp_path, 3, Digits(seen=False), limits()).save_checkpoint(tmp_path / "early.ckpt")
    assert "Alarm" not in capfd.readouterr().err
    later = limits()
    fit(tmp_path, 6, Digits(seen=False), later, ckpt_path=str(tmp_path / "early.ckpt")).save_checkpoint(tmp_path / "late.ckpt")
    assert "Alarm zero_variance, rollout 5" in capfd.readouterr().err
    assert later.history.count == 6
    fit(tmp_path, 9, Digits(seen=False), limits(), ckpt_path=str(tmp_path / "late.ckpt"))
    assert "Alarm" not in capfd.readouterr().err


def test_a_healthy_run_is_left_in_peace(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    alarms = limits()
    fit(tmp_path, 12, Digits(), alarms)
    assert alarms.raised == {}
    assert "Alarm" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("reward", "rate", "name"),
    [(Choking(max_error_rate=1.0), 1e-3, "unscored"), (Digits(), 0.1, "kl_blow_up")],
    ids=["unscored", "kl_blow_up"],
)
def test_a_planted_fault_raises_its_own_alarm(reward: RowReward, rate: float, name: str, tmp_path: Path) -> None:
    alarms = limits(step_kl=0.05)
    fit(tmp_path, 6, reward, alarms, rate=rate)
    assert set(alarms.raised) == {name}


def preference() -> PreferenceOptimization:
    return PreferenceOptimization(TinyPolicy(hidden=16, layers=1, heads=2), ChosenLikelihood(), batch_size=2)


def reward_model() -> RewardModeling:
    return RewardModeling(TinyPolicy(hidden=16, layers=1, heads=2), batch_size=2)


def supervised(**changes: Any) -> SupervisedFineTuning:
    return SupervisedFineTuning(TinyPolicy(hidden=16, layers=1, heads=2), batch_size=2, **changes)


@pytest.mark.parametrize(
    ("make", "shown"),
    [(preference, ["lr", "rewards/margins", "loss"]), (reward_model, ["lr", "margin", "score/std", "loss"]), (supervised, ["lr", "loss"])],
)
def test_a_run_without_rollouts_counts_steps_and_names_its_own_numbers(
    make: Callable[[], Any], shown: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    loggers = [TensorBoardLogger(tmp_path, name="tb")]
    run = quiet_trainer(
        max_steps=11, callbacks=[alarms := Alarms(gradient=0.01)], num_sanity_val_steps=0, logger=loggers, log_every_n_steps=1
    )
    source = DigitSorting(examples=60) if make is supervised else SortedPairs(examples=60)
    run.fit(make(), datamodule=PromptData(train=source))
    told = " ".join(capfd.readouterr().err.split())
    assert set(alarms.raised) == {"gradient"}
    assert "Alarm gradient, step 11: `grad_norm` was" in told
    assert "times the median of the steps before (limit 0.01 times)" in told
    assert "rollout" not in told[told.index("Alarm") :]
    named = re.findall("`([^`]+)`", told.partition("and look at ")[2])
    assert named == shown
    assert set(named) <= set(run.callback_metrics)
    events = EventAccumulator(str(loggers[0].log_dir))
    events.Reload()
    [text] = events.Tensors("alarms/gradient/text_summary")
    assert text.tensor_proto.string_val[0].decode().startswith("**Step 11:** ")


class Overflow(Callback):
    """Loses the weights after the first step."""

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        if trainer.global_step == 1:
            for parameter in pl_module.parameters():
                parameter.data.mul_(1e38)


def test_a_gradient_that_is_not_finite_is_told_at_its_step(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = quiet_trainer(max_steps=5, callbacks=[Alarms(), Overflow()], num_sanity_val_steps=0, default_root_dir=tmp_path)
    subject = supervised(optimizer=lambda p: torch.optim.SGD(p, lr=0.1), max_grad_norm=None)
    run.fit(subject, datamodule=PromptData(train=DigitSorting(examples=60)))
    told = " ".join(capfd.readouterr().err.split())
    assert told.count("Alarm gradient, step 2: the gradient of this step was not finite.") == 1
    assert told.count("Alarm ") == 1


def test_an_alarm_that_comes_back_is_told_again(capfd: pytest.CaptureFixture[str]) -> None:
    run = Trainer(logger=False, barebones=True, accelerator="cpu")
    alarms = Alarms()

    def rollouts(count: int, share: float) -> int:
        for _ in range(count):
            alarms.history.add({"frac_reward_zero_std": share})
            alarms.check(run)
        return capfd.readouterr().err.count("Alarm zero_variance")

    assert rollouts(9, 1.0) == 1
    assert rollouts(QUIET - 10, 0.5) == 0
    assert rollouts(9, 1.0) == 0  # it was away for less than that
    assert rollouts(QUIET + 5, 0.5) == 0
    assert rollouts(9, 1.0) == 1


def test_alarms_are_chosen_by_name(tmp_path: Path) -> None:
    assert [alarm.name for alarm in Alarms(only=["truncation"]).alarms] == ["truncation"]
    assert Alarms(only=[]).alarms == []
    with pytest.raises(ValueError, match=r"'truncated'.*zero_variance, entropy_collapse"):
        Alarms(only=["truncated"])
