"""Whole rollouts: the greedy baseline, the penalty's controller, and a moving average over a resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from lightrl_ppo import REINFORCE, MovingAverageCentered, PPOPenalty, ReMax, TargetKL
from lightrl_workshop import CodePoints, quiet_trainer, rollouts_with

from lightrl import Algorithm, DigitSorting, KLPenalty, PolicyOptimization, Prompt, PromptData, RowReward, TinyPolicy, TransformersEngine


class NoScoreForGreedy(CodePoints):
    """Fails on whatever the greedy completion of some prompts says."""

    def __init__(self, refused: set[tuple[str, str]]) -> None:
        super().__init__()
        self.refused = refused

    def score(self, prompt: Prompt, completion: str) -> float | None:
        return float("nan") if (prompt.id, completion) in self.refused else super().score(prompt, completion)


def module(algorithm: Algorithm, reward: RowReward | None = None, rate: float = 1e-2) -> PolicyOptimization:
    return PolicyOptimization(
        policy=TinyPolicy(hidden=16, layers=1, heads=2),
        algorithm=algorithm,
        rewards={"codes": reward or CodePoints()},
        engine=TransformersEngine(max_new_tokens=6),
        prompts_per_rollout=8,
        optimizer=lambda p: torch.optim.AdamW(p, lr=rate),
    )


def fit(subject: PolicyOptimization, folder: Path, rollouts: int, *callbacks: Callback, **more: Any) -> Trainer:
    run = quiet_trainer(max_epochs=rollouts, default_root_dir=folder, callbacks=callbacks)
    run.fit(subject, datamodule=PromptData(train=DigitSorting(examples=60)), **more)
    return run


def greedy(prompts: list[Prompt]) -> list[str]:
    """The answers of the untrained policy at temperature 0."""
    policy = TinyPolicy(hidden=16, layers=1, heads=2).build()
    return rollouts_with(policy, TransformersEngine(max_new_tokens=6, temperature=0)).rollout(prompts, 1).completions


def test_the_greedy_completion_is_scored_and_not_trained_on(tmp_path: Path) -> None:
    subject = module(ReMax())
    run = fit(subject, tmp_path, 1)
    rows = subject.experience
    assert len(rows) == 8
    expected = [CodePoints().score(prompt, text) for prompt, text in zip(rows.prompts, greedy(rows.prompts), strict=True)]
    assert rows.extras["greedy_reward"].tolist() == pytest.approx(expected)
    advantages = rows.rewards - rows.extras["greedy_reward"]
    for i in range(8):
        assert rows.advantages[i, rows.response_mask[i]].tolist() == pytest.approx([advantages[i].item()] * int(rows.response_lengths[i]))
    assert run.logged_metrics["baseline"] == pytest.approx(sum(expected) / 8)


def test_rows_whose_greedy_completion_has_no_score_are_left_out(tmp_path: Path) -> None:
    first = module(ReMax())
    fit(first, tmp_path, 1)
    prompts = first.experience.prompts
    answers = greedy(prompts)
    refused = {(prompts[0].id, answers[0]), (prompts[3].id, answers[3])}
    second = module(ReMax(), NoScoreForGreedy(refused))
    fit(second, tmp_path, 1)
    assert (~second.experience.scorable).nonzero()[:, 0].tolist() == [0, 3]
    assert (second.experience.token_weight[[0, 3]] == 0).all()


@pytest.mark.parametrize(("rate", "coefficient"), [(1e-7, 0.5), (0.1, 2.0)])
def test_the_penalty_follows_the_kl_of_the_whole_update(rate: float, coefficient: float, tmp_path: Path) -> None:
    subject = module(PPOPenalty(minibatches=2), rate=rate)
    run = fit(subject, tmp_path, 1)
    assert run.global_step == 8
    assert subject.algorithm.kl.loss_coefficient == coefficient
    assert run.logged_metrics["kl_coefficient"] == coefficient
    assert run.logged_metrics["kl"] >= 0


def test_a_stronger_penalty_keeps_the_policy_closer(tmp_path: Path) -> None:
    def moved(coefficient: float) -> float:
        kl = KLPenalty("k3", loss_coefficient=coefficient, against="old")
        return float(fit(module(PPOPenalty(kl=kl, epochs=6)), tmp_path, 1).logged_metrics["approx_kl"])

    assert moved(100.0) < moved(0.01) / 2


def test_the_controller_is_asked_for_the_kl_per_token(tmp_path: Path) -> None:
    class Listening(TargetKL):
        def factor(self, kl: float, rows: int) -> float:
            heard.append((kl, rows))
            return super().factor(kl, rows)

    heard: list[tuple[float, int]] = []
    subject = module(PPOPenalty(kl=KLPenalty("k3", loss_coefficient=1.0, against="old", controller=Listening())))
    fit(subject, tmp_path, 1)
    rows = subject.experience
    with torch.no_grad():
        now = subject.policy(rows.input_ids, rows.response_mask).logprobs
    log_ratio = (now - rows.old_logprobs)[rows.response_mask].double()
    assert heard == [(pytest.approx((log_ratio.exp() - 1 - log_ratio).mean().item(), rel=1e-4), 8)]


def test_a_moving_average_resumes_to_the_same_numbers(tmp_path: Path) -> None:
    def make() -> PolicyOptimization:
        return module(REINFORCE(advantage=MovingAverageCentered(decay=0.5)))

    whole, rest = make(), make()
    fit(whole, tmp_path, 3)
    saver = ModelCheckpoint(tmp_path, filename="{epoch}", save_top_k=-1, every_n_epochs=1)
    fit(make(), tmp_path, 2, saver)
    fit(rest, tmp_path, 3, ckpt_path=saver.best_model_path, weights_only=True)
    assert whole.algorithm.state_dict() == rest.algorithm.state_dict()
    for name, value in whole.policy.state_dict().items():
        assert torch.equal(value, rest.policy.state_dict()[name]), name
