"""A run is what the user said: so many rollouts, so many optimizer steps, and the same numbers after a resume."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import TensorBoardLogger
from lightrl_workshop import InPlace, ReplayedRollouts, quiet_trainer, random_rollout
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from lightrl import (
    Algorithm,
    DecoupledClip,
    DigitSorting,
    GroupRelative,
    GroupSampler,
    KLPenalty,
    PolicyOptimization,
    Prompt,
    PromptData,
    RowReward,
    TinyPolicy,
    TransformersEngine,
)
from lightrl.callbacks.completions_log import CompletionsLog


class Witness(Callback):
    """Remembers what happened when."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int, int]] = []
        self.prompts: list[list[str]] = []

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.events.append(("validation", trainer.current_epoch, trainer.global_step))

    def on_train_epoch_end(self, trainer: Trainer, pl_module: Any) -> None:
        self.events.append(("rollout", trainer.current_epoch, trainer.global_step))
        self.prompts.append([p.id for p in pl_module.experience.prompts])


def algorithm(**changes: Any) -> Algorithm:
    return GroupRelative(**{"sampler": GroupSampler(group_size=4), "minibatches": 4, "epochs": 2, **changes})


def module(**changes: Any) -> PolicyOptimization:
    settings: dict[str, Any] = {
        "policy": TinyPolicy(hidden=16, layers=1, heads=2),
        "algorithm": algorithm(),
        "rewards": {"start": InPlace()},
        "engine": TransformersEngine(max_new_tokens=8),
        "prompts_per_rollout": 8,
        "micro_batch_tokens": 128,
        "optimizer": lambda p: torch.optim.AdamW(p, lr=1e-3),
    }
    return PolicyOptimization(**{**settings, **changes})


def data(**changes: Any) -> PromptData:
    return PromptData(**{"train": DigitSorting(examples=60), "validation_size": 10, **changes})


def trainer(tmp_path: Path, rollouts: int, *callbacks: Callback, **changes: Any) -> Trainer:
    settings: dict[str, Any] = {"max_epochs": rollouts, "num_sanity_val_steps": 0, "default_root_dir": tmp_path, "callbacks": callbacks}
    return quiet_trainer(**{**settings, **changes})


def test_three_rollouts_of_four_minibatches_and_two_epochs_are_24_steps_and_validation_counts_rollouts(tmp_path: Path) -> None:
    witness = Witness()
    run = trainer(tmp_path, 3, witness, check_val_every_n_epoch=2)
    run.fit(module(), datamodule=data())
    assert run.global_step == 24
    assert witness.events == [("validation", 0, 0), ("rollout", 0, 8), ("validation", 1, 16), ("rollout", 1, 16), ("rollout", 2, 24)]


@pytest.mark.parametrize("stop_after", [1, 2])
def test_a_resumed_run_makes_exactly_the_rest_with_the_same_numbers(tmp_path: Path, stop_after: int) -> None:
    kl = KLPenalty(loss_coefficient=0.1)
    whole, part, rest = Witness(), Witness(), Witness()
    one = module(algorithm=algorithm(kl=kl))
    trainer(tmp_path, 3, whole).fit(one, datamodule=data())
    saver = ModelCheckpoint(tmp_path, filename="{epoch}", save_top_k=-1, every_n_epochs=1)
    trainer(tmp_path, stop_after, part, saver).fit(module(algorithm=algorithm(kl=KLPenalty(loss_coefficient=0.1))), datamodule=data())
    resumed = module(algorithm=algorithm(kl=KLPenalty(loss_coefficient=0.1)))
    second = trainer(tmp_path, 3, rest)
    second.fit(resumed, datamodule=data(), ckpt_path=saver.best_model_path, weights_only=True)
    assert second.global_step == 24
    assert len(rest.prompts) == 3 - stop_after
    assert part.prompts + rest.prompts == whole.prompts
    for name, value in one.policy.state_dict().items():
        assert torch.equal(value, resumed.policy.state_dict()[name]), name


def test_on_the_first_pass_every_ratio_is_1_and_nobody_is_warned(tmp_path: Path) -> None:
    subject = module(algorithm=algorithm(minibatches=1, epochs=1), engine=TransformersEngine(max_new_tokens=8, temperature=0.7, top_p=0.9))
    run = trainer(tmp_path, 2)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="the engine's log-probs")
        run.fit(subject, datamodule=data())
    assert run.logged_metrics["ratio/max_deviation"] < 1e-4


def test_an_engine_with_wrong_log_probs_is_reported_with_numbers(tmp_path: Path) -> None:
    rollout = random_rollout(TinyPolicy(hidden=16, layers=1, heads=2).build(), groups=8, off_policy=0.5)
    subject = module(rewards={"length": LengthOfText()}, algorithm=algorithm(minibatches=1))
    subject.collector.rollouts = ReplayedRollouts(rollout)
    with pytest.warns(UserWarning, match=r"over \d+ tokens log-probs differ by [\d.]+ on average"):
        trainer(tmp_path, 1).fit(subject, datamodule=data())


class LengthOfText(RowReward):
    runs = "inline"

    def score(self, prompt: Prompt, completion: str) -> float:
        return float(len(completion))


def test_stop_kl_ends_the_passes_and_leaves_no_gradient_behind(tmp_path: Path) -> None:
    run = trainer(tmp_path, 1)
    subject = module(algorithm=algorithm(stop_kl=1e-7, clip=DecoupledClip(0.9, 9.0)), optimizer=lambda p: torch.optim.SGD(p, lr=5.0))
    run.fit(subject, datamodule=data())
    assert 1 <= run.global_step < 8
    assert run.logged_metrics["stopped_early"] == 1
    assert all(p.grad is None for p in subject.policy.parameters())


def test_a_reference_is_built_only_if_a_part_needs_it(tmp_path: Path) -> None:
    with_kl, without = module(algorithm=algorithm(kl=KLPenalty(loss_coefficient=0.1))), module()
    trainer(tmp_path, 1).fit(with_kl, datamodule=data())
    trainer(tmp_path, 1).fit(without, datamodule=data())
    assert with_kl.algorithm.reference._anchor is not None
    assert without.algorithm.reference._anchor is None


def test_schedules_step_with_the_optimizer(tmp_path: Path) -> None:
    subject = module(lr_scheduler=lambda o: torch.optim.lr_scheduler.LinearLR(o, start_factor=0.5, total_iters=16))
    run = trainer(tmp_path, 1)
    run.fit(subject, datamodule=data())
    assert subject.lr_schedulers().get_last_lr()[0] == pytest.approx(1e-3 * (0.5 + 0.5 * 8 / 16))


@pytest.mark.parametrize(("length", "limit"), [(23, -1), (24, -1), (9, 8)])
def test_a_schedule_that_is_shorter_than_the_run_is_refused_before_the_first_rollout(tmp_path: Path, length: int, limit: int) -> None:
    subject = module(lr_scheduler=lambda o: torch.optim.lr_scheduler.OneCycleLR(o, max_lr=1e-3, total_steps=length))
    run = trainer(tmp_path, 3, max_steps=limit)
    if length >= 24 or limit > 0:
        run.fit(subject, datamodule=data())
        assert run.global_step == (24 if limit < 0 else 8)
        return
    with pytest.raises(ValueError, match=r"23, .* 24 .*--model\.lr_scheduler\.total_steps 24"):
        run.fit(subject, datamodule=data())
    assert run.global_step == 0


def test_numbers_and_texts_of_a_validation_have_one_place_in_the_log_and_none_shares_that_before_training(tmp_path: Path) -> None:
    table = CompletionsLog(every_n_rollouts=2, print_first=False)
    run = trainer(tmp_path, 3, table, logger=TensorBoardLogger(tmp_path, name="run"))
    run.fit(module(), datamodule=data())
    events = EventAccumulator(run.log_dir)
    events.Reload()
    places = {tag: [event.step for event in events.Scalars(tag)] for tag in ("reward", "val/reward")}
    places |= {tag: [event.step for event in events.Tensors(f"{tag}/text_summary")] for tag in ("completions", "val/completions")}
    assert places == {"reward": [1, 2, 3], "val/reward": [0, 1, 2, 3], "completions": [1, 3], "val/completions": [0, 1, 2, 3]}


def test_an_evaluation_without_a_logger_warns_of_none_of_its_numbers(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    run = trainer(tmp_path, 1, logger=False)
    found = run.validate(module(), datamodule=data(), verbose=False)
    assert "val/reward" in found[0]
    assert not [warning for warning in recwarn if "logger" in str(warning.message)]


def test_tensorboard_shows_the_names_of_the_field_over_rollouts(tmp_path: Path) -> None:
    run = trainer(tmp_path, 3, logger=TensorBoardLogger(tmp_path, name="run"), log_every_n_steps=1)
    run.fit(module(algorithm=algorithm(kl=KLPenalty(loss_coefficient=0.1))), datamodule=data())
    events = EventAccumulator(run.log_dir)
    events.Reload()
    names = {
        "reward", "reward_std", "frac_reward_zero_std", "rewards/start/mean", "rewards/start/std", "rewards/start/weight",
        "rewards/start/contribution", "kl", "policy_loss", "clip_ratio/low", "clip_ratio/high", "clip_ratio/region", "ratio/mean",
        "ratio/max", "approx_kl", "completions/mean_length", "completions/min_length", "completions/max_length",
        "completions/clipped_ratio", "advantages/mean", "advantages/std", "grad_norm", "lr", "perf/tokens_per_second",
        "perf/rollout_s", "progress/tokens", "progress/seconds", "progress/optimizer_steps",
        "perf/reward_s", "perf/optimize_s", "val/reward", "val/rewards/start/mean",
    }  # fmt: skip
    assert names <= set(events.Tags()["scalars"]), names - set(events.Tags()["scalars"])
    assert len(events.Scalars("reward")) == 3
    steps = [event.step for event in events.Scalars("reward")]
    assert steps == sorted(set(steps))


def test_more_minibatches_than_prompts_is_refused_when_built() -> None:
    with pytest.raises(ValueError, match=r"prompts_per_rollout .*2.*algorithm\.minibatches .*4"):
        module(prompts_per_rollout=2)


def test_two_runs_with_one_seed_are_one_run(tmp_path: Path) -> None:
    first, second = module(), module()
    trainer(tmp_path, 2).fit(first, datamodule=data())
    trainer(tmp_path, 2).fit(second, datamodule=data())
    for name, value in first.policy.state_dict().items():
        assert torch.equal(value, second.policy.state_dict()[name]), name
