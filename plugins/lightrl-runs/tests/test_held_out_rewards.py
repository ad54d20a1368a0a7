"""Rewards for validation alone: scored and logged, never trained on, and an alarm where they part from the trained one."""

from typing import Any

import pytest
import torch
from lightning.pytorch import Callback
from lightrl_runs.held_out_rewards import HeldOutRewards
from lightrl_workshop import quiet_trainer

from lightrl import (
    GroupRelative,
    GroupSampler,
    PolicyOptimization,
    PromptData,
    Reversal,
    Reward,
    RowReward,
    TinyPolicy,
)
from lightrl.callbacks.alarms import Alarms

SEEN: list[str] = []


class Evens(RowReward):
    """The share of even digits: learnt at once."""

    def score(self, prompt: str, completion: str) -> float:
        return sum(letter in "02468" for letter in completion) / max(len(completion), 1)


class Odds(RowReward):
    """The share of odd digits, which falls while that of even ones rises; remembers what it was asked."""

    def score(self, prompt: str, completion: str) -> float:
        SEEN.append(completion)
        return sum(letter in "13579" for letter in completion) / max(len(completion), 1)


class Logged(Callback):
    """Remembers numbers of validations and alarms."""

    def __init__(self) -> None:
        self.held_out: list[float] = []
        self.alarms: set[str] = set()

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        self.held_out.append(float(trainer.callback_metrics["val/held_out/odds"]))

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self.alarms = {name for name, value in trainer.callback_metrics.items() if name.startswith("alarms/") and value == 1}


def module(rewards: dict[str, Reward]) -> PolicyOptimization:
    return PolicyOptimization(
        policy=TinyPolicy(seed=3),
        algorithm=GroupRelative(sampler=GroupSampler(group_size=8), minibatches=1),
        rewards=rewards,
        prompts_per_rollout=8,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=3e-3),
    )


@pytest.mark.thorough
def test_they_are_scored_at_validations_alone_and_the_alarm_is_raised_where_both_part_ways() -> None:
    SEEN.clear()
    logged, data = Logged(), PromptData(train=Reversal(examples=200), validation_size=16)
    held_out = HeldOutRewards({"odds": Odds(runs="inline")})
    trainer = quiet_trainer(max_epochs=16, check_val_every_n_epoch=2, num_sanity_val_steps=0, callbacks=[held_out, Alarms(), logged])
    trainer.fit(module({"evens": Evens(runs="inline")}), datamodule=data)
    assert len(logged.held_out) == 1 + 8
    assert len(SEEN) == 16 * len(logged.held_out), "each held-out completion once, and no other one"
    assert logged.held_out[-1] < 0.7 * logged.held_out[0]
    assert "alarms/validation_falls" in logged.alarms


def test_the_policy_is_that_of_a_run_without_them() -> None:
    weights = []
    for callbacks in ([], [HeldOutRewards({"odds": Odds(runs="inline")})]):
        run = module({"evens": Evens(runs="inline")})
        data = PromptData(train=Reversal(examples=200), validation_size=4)
        quiet_trainer(max_epochs=2, callbacks=callbacks).fit(run, datamodule=data)
        weights.append(torch.cat([parameter.detach().flatten() for parameter in run.learner.policy.parameters()]))
    assert weights[0].equal(weights[1])


def test_a_test_scores_too() -> None:
    data = PromptData(train=Reversal(examples=200), test=Reversal(examples=8, seed=1))
    found = quiet_trainer(callbacks=[HeldOutRewards({"odds": Odds(runs="inline")})]).test(
        module({"evens": Evens(runs="inline")}), datamodule=data
    )
    assert 0 <= found[0]["test/held_out/odds"] <= 1


def test_what_cannot_be_scored_is_refused_before_the_first_rollout() -> None:
    data = PromptData(train=Reversal(examples=200), validation_size=4)

    class Wants(RowReward):
        """Wants a column."""

        def score(self, prompt: str, completion: str, colour: str) -> float:
            return float(colour == completion)

    for rewards, message in (
        ({"evens": Evens(runs="inline")}, "HeldOutRewards has 'evens', and so has model.rewards"),
        ({"wants": Wants(runs="inline")}, "wants the argument 'colour'"),
    ):
        with pytest.raises(ValueError, match=message):
            quiet_trainer(max_epochs=1, callbacks=[HeldOutRewards(rewards)]).fit(module({"evens": Evens(runs="inline")}), datamodule=data)
    with pytest.raises(ValueError, match="HeldOutRewards has no reward"):
        HeldOutRewards({})
