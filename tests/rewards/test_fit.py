"""Through a whole run: what a reward does to some rows is counted, and the rest of the run does not notice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback, Trainer
from lightrl_workshop import quiet_trainer

from lightrl import (
    DigitSorting,
    Function,
    GroupRelative,
    GroupSampler,
    LinearWeight,
    PolicyOptimization,
    PromptData,
    TinyPolicy,
    TransformersEngine,
)
from lightrl.types import Experience, Outcome

GROUP = 4


class Witness(Callback):
    """Keeps every rollout and its numbers."""

    def __init__(self) -> None:
        self.rollouts: list[Experience] = []
        self.numbers: list[dict[str, float]] = []

    def on_train_epoch_end(self, trainer: Trainer, pl_module: Any) -> None:
        self.rollouts.append(pl_module.experience)
        self.numbers.append({name: float(value) for name, value in trainer.logged_metrics.items()})


def module(rewards: dict[str, Any], slices: int = 1) -> PolicyOptimization:
    return PolicyOptimization(
        policy=TinyPolicy(hidden=16, layers=1, heads=2),
        algorithm=GroupRelative(sampler=GroupSampler(group_size=GROUP, slices=slices)),
        rewards=rewards,
        engine=TransformersEngine(max_new_tokens=8),
        prompts_per_rollout=8,
        optimizer=lambda p: torch.optim.AdamW(p, lr=1e-3),
    )


def trainer(folder: Path, rollouts: int, *callbacks: Callback) -> Trainer:
    return quiet_trainer(max_epochs=rollouts, num_sanity_val_steps=0, default_root_dir=folder, callbacks=callbacks)


def fit(folder: Path, rewards: dict[str, Any], rollouts: int = 2, slices: int = 1) -> tuple[PolicyOptimization, Witness]:
    subject, witness = module(rewards, slices), Witness()
    run = trainer(folder, rollouts, witness)
    run.fit(subject, datamodule=PromptData(train=DigitSorting(examples=60)))
    assert run.global_step == rollouts
    return subject, witness


def failing(name: str) -> Callable[[str], bool]:
    import bad_rewards

    return bad_rewards.chosen if name != "leaks" else lambda text: False


@pytest.mark.parametrize("name", ["sleeps", "raises", "returns_nan", "crashes"])
def test_rows_that_a_reward_fails_on_leave_the_statistics_and_the_loss_and_are_counted(name: str, tmp_path: Path) -> None:
    limits = {"timeout_s": 1.5} if name == "sleeps" else {}
    _, witness = fit(tmp_path, {"bad": Function(f"bad_rewards.{name}", **limits)})
    failures = 0
    for rollout, numbers in zip(witness.rollouts, witness.numbers, strict=True):
        bad = torch.tensor([failing(name)(text) for text in rollout.completions])
        assert torch.equal(rollout.scorable, ~bad)
        assert numbers["unscorable"] == bad.sum()
        assert numbers["rewards/bad/failed"] == pytest.approx(float(bad.float().mean()))
        assert numbers["rewards/bad/timeout"] == pytest.approx(float(bad.float().mean()) if name == "sleeps" else 0.0)
        assert not rollout.token_weight[bad].any()
        assert not rollout.advantages[bad].any()
        for group in rollout.group.unique():
            of_group = (rollout.group == group) & ~bad
            scores = torch.tensor([float(len(set(t))) for t, m in zip(rollout.completions, of_group, strict=True) if m])
            assert torch.equal(rollout.rewards[of_group], scores)
            if len(scores) > 1 and scores.std() > 0:
                expected = (scores - scores.mean()) / scores.std()
                # `advantages` is constant over a row's tokens
                found = torch.stack([a[m][0] for a, m in zip(rollout.advantages, rollout.response_mask, strict=True)])[of_group]
                torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
        failures += int(bad.sum())
    assert failures > 0


def test_a_reward_that_leaks_memory_loses_a_few_rows_and_nothing_else(tmp_path: Path) -> None:
    _, witness = fit(tmp_path, {"leaks": Function("bad_rewards.leaks", memory_mb=300)})
    for rollout, numbers in zip(witness.rollouts, witness.numbers, strict=True):
        failed = rollout.outcomes["leaks"] == Outcome.ERROR
        assert 1 <= failed.sum() <= 10
        assert torch.equal(rollout.scorable, ~failed)
        assert numbers["unscorable"] == failed.sum()


def test_failures_beyond_the_budget_stop_the_run_and_name_samples(tmp_path: Path) -> None:
    rewards = {"bad": Function("bad_rewards.always_raises", error_window=40), "good": Function("bad_rewards.letters")}
    run = trainer(tmp_path, 5)
    with pytest.raises(RuntimeError) as stopped:
        run.fit(module(rewards), datamodule=PromptData(train=DigitSorting(examples=60)))
    message = str(stopped.value)
    assert message.startswith("reward 'bad' failed on 32 of the last 32 completions (more than 20 are not allowed):\n  prompt '")
    assert "ArithmeticError: never (" in message
    assert run.global_step == 0


def test_a_reward_without_weight_may_fail_as_it_likes(tmp_path: Path) -> None:
    rewards = {"bad": Function("bad_rewards.always_raises", weight=0.0, error_window=1), "good": Function("bad_rewards.letters")}
    _, witness = fit(tmp_path, rewards)
    assert witness.numbers[-1]["rewards/bad/failed"] == 1
    assert witness.numbers[-1]["unscorable"] == 0


def test_each_rewards_part_in_a_run_is_reported(tmp_path: Path) -> None:
    rewards = {
        "letters": Function("bad_rewards.letters", runs="inline", normalize="group", cache=1000),
        "late": Function("bad_rewards.letters", runs="inline", gate="letters", gate_above=4.0, schedule=LinearWeight(0.0, 1.0, 2)),
    }
    subject, witness = fit(tmp_path, rewards, rollouts=3)
    assert [numbers["rewards/late/weight"] for numbers in witness.numbers] == [0.0, 0.5, 1.0]
    for numbers, rollout in zip(witness.numbers, witness.rollouts, strict=True):
        of = {name: {what: numbers[f"rewards/{name}/{what}"] for what in ("contribution", "share", "gated", "cached")} for name in rewards}
        assert sum(part["contribution"] for part in of.values()) == pytest.approx(numbers["reward"], abs=1e-5)
        assert sum(part["share"] for part in of.values()) == pytest.approx(1.0)
        letters = torch.tensor([len(set(text)) for text in rollout.completions])
        assert of["late"]["gated"] == pytest.approx(float((letters <= 4).float().mean()))
    assert subject.collector.rewards.state_dict()["rollouts"] == 3


def test_a_resumed_run_goes_on_with_the_schedule(tmp_path: Path) -> None:
    def rewards() -> dict[str, Any]:
        return {"letters": Function("bad_rewards.letters", runs="inline", schedule=LinearWeight(1.0, 0.0, 4))}

    whole, whole_witness = fit(tmp_path, rewards(), rollouts=3)
    first = trainer(tmp_path, 1)
    first.fit(module(rewards()), datamodule=PromptData(train=DigitSorting(examples=60)))
    first.save_checkpoint(tmp_path / "x.ckpt")
    rest, witness = module(rewards()), Witness()
    run = trainer(tmp_path, 3, witness)
    run.fit(rest, datamodule=PromptData(train=DigitSorting(examples=60)), ckpt_path=str(tmp_path / "x.ckpt"), weights_only=True)
    assert [n["rewards/letters/weight"] for n in witness.numbers] == [0.75, 0.5]
    assert [n["reward"] for n in witness.numbers] == [n["reward"] for n in whole_witness.numbers[1:]]
    for name, value in whole.policy.state_dict().items():
        assert torch.equal(value, rest.policy.state_dict()[name]), name


def test_a_resumed_run_has_the_same_error_budget_left(tmp_path: Path) -> None:
    def rewards() -> dict[str, Any]:
        return {"bad": Function("bad_rewards.raises", runs="inline", max_error_rate=0.04, error_window=100)}

    def stopped(run: Trainer, **options: Any) -> str:
        with pytest.raises(RuntimeError) as error:
            run.fit(module(rewards()), datamodule=PromptData(train=DigitSorting(examples=60)), **options)
        return str(error.value)

    whole, first, rest = trainer(tmp_path, 9), trainer(tmp_path, 1), trainer(tmp_path, 9)
    complaint = stopped(whole)
    assert complaint.startswith("reward 'bad' failed on 5 of the last 64 completions (more than 4 are not allowed):\n  prompt '")
    assert whole.global_step == 1
    first.fit(module(rewards()), datamodule=PromptData(train=DigitSorting(examples=60)))
    first.save_checkpoint(tmp_path / "x.ckpt")
    assert stopped(rest, ckpt_path=str(tmp_path / "x.ckpt"), weights_only=True) == complaint
    assert rest.global_step == 1


def test_scoring_one_slice_while_the_next_is_generated_changes_no_number(tmp_path: Path) -> None:
    rewards = {"letters": Function("bad_rewards.letters"), "fixed": Function("bad_rewards.letters", runs="inline", gate="letters")}
    _, together = fit(tmp_path, rewards)
    _, sliced = fit(tmp_path, rewards, slices=3)
    for one, other in zip(together.rollouts, sliced.rollouts, strict=True):
        assert one.completions == other.completions
        assert torch.equal(one.group, other.group)
        assert torch.equal(one.rewards, other.rewards)
        torch.testing.assert_close(one.advantages, other.advantages)
