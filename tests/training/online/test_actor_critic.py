"""Policy and critic in one step, and the critic alone where it is asked to be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightrl_workshop import InPlace, quiet_trainer

from lightrl import (
    ActorCritic,
    Critic,
    DigitSorting,
    OutcomeShaping,
    PolicyOptimization,
    Prompt,
    PromptData,
    RowReward,
    TinyPolicy,
    TransformersEngine,
    ValueHead,
    ValueModel,
)


class SmallFirstDigit(RowReward):
    """Decided by the first token: what follows should be expected."""

    runs = "inline"

    def score(self, prompt: Prompt, completion: str) -> float:
        return float(completion[:1] in "01234=")


class Weights(Callback):
    """Copies of all weights at the start and after every rollout, and what was logged."""

    def __init__(self) -> None:
        self.policy: list[dict[str, torch.Tensor]] = []
        self.critic: list[dict[str, torch.Tensor]] = []
        self.steps: list[int] = []
        self.logged: list[dict[str, float]] = []

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        self._copy(trainer, pl_module)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: Any) -> None:
        self._copy(trainer, pl_module)
        self.logged.append({name: float(value) for name, value in trainer.callback_metrics.items()})

    def _copy(self, trainer: Trainer, module: Any) -> None:
        self.policy.append({k: v.clone() for k, v in module.policy.state_dict().items()})
        self.critic.append({k: v.clone() for k, v in module.critic.state_dict().items()})
        self.steps.append(trainer.global_step)


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(value, other[name]) for name, value in one.items())


def module(
    critic: Critic, reward: RowReward | None = None, tokens: int = 8, prompts: int = 8, rate: float = 1e-2, **changes: Any
) -> PolicyOptimization:
    torch.manual_seed(1)
    return PolicyOptimization(
        policy=TinyPolicy(hidden=16, layers=1, heads=2),
        algorithm=ActorCritic(critic=critic, **{"minibatches": 2, **changes}),
        rewards={"start": reward or InPlace()},
        engine=TransformersEngine(max_new_tokens=tokens),
        prompts_per_rollout=prompts,
        micro_batch_tokens=512,
        optimizer=lambda p: torch.optim.AdamW(p, lr=rate, weight_decay=0.1),
    )


def train(subject: PolicyOptimization, folder: Path, rollouts: int, *callbacks: Callback, **fit: Any) -> Trainer:
    torch.manual_seed(2)
    run = quiet_trainer(max_epochs=rollouts, default_root_dir=folder, callbacks=callbacks)
    run.fit(subject, datamodule=PromptData(train=DigitSorting(examples=60)), **fit)
    return run


@pytest.mark.parametrize("make", [ValueHead, ValueModel])
def test_warming_up_the_critic_leaves_the_policy_and_its_optimizer_alone(make: type[Any], tmp_path: Path) -> None:
    seen = Weights()
    subject = module(make(warmup_rollouts=2, extra_epochs=1))
    run = train(subject, tmp_path, 3, seen)
    # 2 rollouts of (1 + 1) passes x 2 minibatches, then 2 joint steps and 2 of the critic alone
    assert seen.steps == [0, 4, 8, 12]
    assert same(seen.policy[0], seen.policy[2])
    assert not same(seen.policy[2], seen.policy[3])
    assert not same(seen.critic[0], seen.critic[1])
    assert "policy_loss" not in seen.logged[0]
    assert seen.logged[0]["value_loss"] > 0
    state = run.optimizers[0].state
    policy, critic = (next(iter(m.parameters())) for m in (subject.policy, subject.critic))
    assert float(state[policy]["step"]) == 2
    assert float(state[critic]["step"]) == 12


def test_extra_passes_move_the_critic_only(tmp_path: Path) -> None:
    plain, extra = Weights(), Weights()
    train(module(ValueModel(), epochs=1), tmp_path, 1, plain)
    train(module(ValueModel(extra_epochs=3), epochs=1), tmp_path, 1, extra)
    assert same(plain.policy[-1], extra.policy[-1])
    assert not same(plain.critic[-1], extra.critic[-1])
    assert extra.steps[-1] == 2 + 3 * 2


def test_a_critic_of_its_own_does_not_touch_the_policy_whatever_its_coefficient(tmp_path: Path) -> None:
    runs = []
    for coefficient in (0.01, 3.0):
        seen = Weights()
        subject = module(ValueModel(coefficient=coefficient))
        subject.learner.settings = replace(subject.learner.settings, max_grad_norm=None)
        train(subject, tmp_path, 1, seen)
        runs.append(seen)
    assert same(runs[0].policy[-1], runs[1].policy[-1])


def test_a_shared_trunk_feels_the_value_loss_unless_detached(tmp_path: Path) -> None:
    def after(**settings: Any) -> dict[str, torch.Tensor]:
        seen = Weights()
        subject = module(ValueHead(**settings))
        subject.learner.settings = replace(subject.learner.settings, max_grad_norm=None)
        train(subject, tmp_path, 1, seen)
        return seen.policy[-1]

    assert not same(after(coefficient=0.01), after(coefficient=3.0))
    assert same(after(coefficient=0.01, detach=True), after(coefficient=3.0, detach=True))


def test_the_critic_has_its_own_learning_rate(tmp_path: Path) -> None:
    run = train(module(ValueModel(learning_rate=0.5)), tmp_path, 1)
    assert [group["lr"] for group in run.optimizers[0].param_groups] == [1e-2, 0.5]


def test_a_critic_learns_what_to_expect(tmp_path: Path) -> None:
    seen = Weights()
    critic = ValueModel(warmup_rollouts=25, extra_epochs=1, clip=None)
    train(module(critic, SmallFirstDigit(), tokens=2, prompts=64, rate=3e-3), tmp_path, 25, seen)
    assert seen.logged[-1]["explained_variance"] > max(seen.logged[0]["explained_variance"], 0.2)
    assert seen.logged[-1]["value_loss"] < seen.logged[0]["value_loss"]


def test_a_run_with_a_critic_resumes_to_the_same_numbers(tmp_path: Path) -> None:
    whole, rest = Weights(), Weights()

    def make() -> PolicyOptimization:
        return module(ValueModel(warmup_rollouts=1, extra_epochs=1))

    train(make(), tmp_path, 3, whole)
    saver = ModelCheckpoint(tmp_path, filename="{epoch}", save_top_k=-1, every_n_epochs=1)
    train(make(), tmp_path, 2, saver)
    train(make(), tmp_path, 3, rest, ckpt_path=saver.best_model_path, weights_only=True)
    assert same(whole.policy[-1], rest.policy[-1])
    assert same(whole.critic[-1], rest.critic[-1])


def test_shaping_comes_before_everything_else(tmp_path: Path) -> None:
    seen = Weights()
    subject = module(ValueHead(), shaping=OutcomeShaping(missing_eos_penalty=1.0))
    train(subject, tmp_path, 1, seen)
    rows = subject.experience
    raw = rows.reward_parts["start"]
    assert rows.truncated.any()
    assert torch.allclose(rows.rewards, raw - rows.truncated.float())
    assert seen.logged[0]["shaped_reward"] == pytest.approx(rows.rewards.mean().item())
