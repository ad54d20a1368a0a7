"""Dynamic sampling in real runs: full batches, short ones, none, a resume with groups carried over, and two processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightrl_dapo import DynamicSampler
from lightrl_workshop import CodePoints, quiet_trainer

from lightrl import (
    DigitSorting,
    GroupRelative,
    PolicyOptimization,
    Prompt,
    PromptData,
    TinyPolicy,
    TransformersEngine,
)
from lightrl.training.online.policy_optimization import load_run_state


class HalfOfThePrompts(CodePoints):
    """Every other prompt is all right or all wrong; the others' completions differ."""

    def __init__(self, varied: bool = True) -> None:
        super().__init__(modulus=97)
        self.varied = varied

    def score(self, prompt: Prompt, completion: str) -> float:
        number = sum(map(ord, prompt.text or ""))
        if number % 2 or not self.varied:
            return float(number % 4 == 1)
        return super().score(prompt, completion)


class Witness(Callback):
    """The prompts that every rollout trained on."""

    def __init__(self) -> None:
        self.prompts: list[list[str]] = []
        self.stale: list[int] = []
        self.logged: list[dict[str, float]] = []

    def on_train_epoch_end(self, trainer: Trainer, pl_module: Any) -> None:
        rows = pl_module.experience
        self.prompts.append([p.id for p in rows.prompts])
        self.stale.append(len(rows.policy_version.unique()))
        self.logged.append({name: float(value) for name, value in trainer.logged_metrics.items()})


def module(sampler: DynamicSampler, varied: bool = True, **changes: Any) -> PolicyOptimization:
    return PolicyOptimization(
        policy=TinyPolicy(hidden=16, layers=1, heads=2),
        algorithm=GroupRelative(**{"sampler": sampler, "minibatches": 4, **changes}),
        rewards={"score": HalfOfThePrompts(varied)},
        engine=TransformersEngine(max_new_tokens=6),
        prompts_per_rollout=8,
        micro_batch_tokens=128,
        optimizer=lambda p: torch.optim.AdamW(p, lr=1e-3),
    )


def fit(subject: PolicyOptimization, rollouts: int, *callbacks: Callback, folder: Path, **more: Any) -> Trainer:
    trainer = quiet_trainer(max_epochs=rollouts, default_root_dir=folder, callbacks=callbacks)
    trainer.fit(subject, datamodule=PromptData(train=DigitSorting(examples=400)), **more)
    return trainer


def test_batches_are_full_of_groups_with_some_variance_and_the_counts_are_logged(tmp_path: Path) -> None:
    witness = Witness()
    fit(module(DynamicSampler(group_size=4)), 3, witness, folder=tmp_path)
    for logged, prompts in zip(witness.logged, witness.prompts, strict=True):
        assert len(prompts) == 32
        assert logged["frac_reward_zero_std"] == 0
        assert logged["sampling/kept"] == 8
        found = sum(logged[f"sampling/{name}"] for name in ("kept", "surplus", "dropped_zero_variance", "dropped_unscorable"))
        assert found == logged["sampling/prompts"] + logged["sampling/carried"]
        assert logged["sampling/dropped_zero_variance"] == logged["sampling/dropped_all_right"] + logged["sampling/dropped_all_wrong"] > 0
        assert logged["sampling/rounds"] > 1
    everything = [i for prompts in witness.prompts for i in prompts[::4]]
    assert len(set(everything)) == len(everything)


def sampler_that_carries() -> DynamicSampler:
    return DynamicSampler(group_size=4, oversampling=1.7, surplus="carry", zero_variance="resample", attempts=2)


@pytest.mark.parametrize("stop_after", [1, 2, 3])
def test_a_run_resumed_with_groups_carried_over_equals_the_uninterrupted_one(tmp_path: Path, stop_after: int) -> None:
    whole, part, rest = Witness(), Witness(), Witness()
    one = module(sampler_that_carries())
    fit(one, 4, whole, folder=tmp_path)
    saver = ModelCheckpoint(tmp_path, filename="{epoch}", save_top_k=-1, every_n_epochs=1)
    stopped = module(sampler_that_carries())
    fit(stopped, stop_after, part, saver, folder=tmp_path)
    kept = stopped.algorithm.sampler.state_dict()
    assert kept, "nothing was carried over, so that the resume would prove nothing"
    resumed = module(sampler_that_carries())
    fit(resumed, 4, rest, folder=tmp_path, ckpt_path=saver.best_model_path, weights_only=True)
    assert part.prompts + rest.prompts == whole.prompts
    assert max(whole.stale) > 1
    for name, value in one.policy.state_dict().items():
        assert torch.equal(value, resumed.policy.state_dict()[name]), name


def test_what_one_rank_kept_is_not_dealt_out_to_others(tmp_path: Path) -> None:
    subject = module(sampler_that_carries())
    fit(subject, 1, folder=tmp_path)
    checkpoint: dict[str, Any] = {}
    subject.on_save_checkpoint(checkpoint)
    state, kept = checkpoint["lightrl"], checkpoint["lightrl"]["algorithm_per_rank"]

    def load(**changes: Any) -> None:
        load_run_state(state | changes, subject.learner, subject.collector)

    with pytest.raises(ValueError, match=r"2 ranks .*model\.algorithm\.sampler, .* 1"):
        load(algorithm_per_rank=[*kept, {}])
    with pytest.raises(ValueError, match=r"2 ranks .*model\.rollouts_ahead, .* 1"):
        load(algorithm_per_rank=[{}, {}], ahead=[[{"scored": {}}], []])
    load(algorithm_per_rank=[{}, {}, {}])


def test_rows_of_an_older_policy_are_not_taken_for_an_engines_mistake(tmp_path: Path) -> None:
    def sampler() -> DynamicSampler:
        return DynamicSampler(group_size=4, oversampling=3, surplus="carry")

    saver = ModelCheckpoint(tmp_path, filename="{epoch}", save_top_k=-1, every_n_epochs=1)
    fit(module(sampler()), 1, saver, folder=tmp_path)
    resumed, witness = module(sampler()), Witness()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="the engine's log-probs")
        fit(resumed, 4, witness, folder=tmp_path, ckpt_path=saver.best_model_path, weights_only=True)
    assert witness.logged[0]["sampling/staleness"] > 0


def test_a_rollout_with_zero_variance_everywhere_is_skipped_and_counted(tmp_path: Path) -> None:
    subject, witness = module(DynamicSampler(group_size=4, max_rounds=2, exhausted="skip"), varied=False), Witness()
    before = TinyPolicy(hidden=16, layers=1, heads=2).build().state_dict()
    trainer = fit(subject, 2, witness, folder=tmp_path)
    assert trainer.global_step == 0
    assert [logged["skipped_steps"] for logged in witness.logged] == [4, 4]
    assert [logged["sampling/kept"] for logged in witness.logged] == [0, 0]
    assert [logged["sampling/rounds"] for logged in witness.logged] == [2, 2]
    assert all(torch.equal(value, before[name]) for name, value in subject.policy.state_dict().items())


def test_a_short_batch_makes_the_steps_it_has_groups_for(tmp_path: Path) -> None:
    witness = Witness()
    trainer = fit(module(DynamicSampler(group_size=4, max_rounds=1, exhausted="partial"), minibatches=8), 1, witness, folder=tmp_path)
    groups = len(witness.prompts[0]) // 4
    assert 0 < groups < 8
    assert trainer.global_step == groups
    assert witness.logged[0]["skipped_steps"] == 8 - groups


def test_weighed_down_groups_leave_the_token_denominator_by_their_factor(tmp_path: Path) -> None:
    sampler = DynamicSampler(group_size=4, zero_variance="down_weight", factor=0.25)
    subject = module(sampler, minibatches=1)
    fit(subject, 1, folder=tmp_path)
    rows = subject.experience
    assert rows is not None
    assert rows.row_weight is not None
    zero_variance = (rows.advantages == 0).all(1)
    assert 0 < zero_variance.sum() < 32
    assert rows.row_weight.tolist() == [0.25 if d else 1.0 for d in zero_variance.tolist()]
    assert torch.equal(rows.token_weight, rows.response_mask * rows.row_weight[:, None])


def two_ranks(folder: Path, exhausted: str) -> list[dict[str, Any]]:
    script = Path(__file__).with_name("two_ranks.py")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, script, folder, exhausted], env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.thorough
def test_two_ranks_fill_their_batches_where_only_one_has_groups_without_signal(tmp_path: Path) -> None:
    ranks = two_ranks(tmp_path, "raise")
    for rank in ranks:
        assert [len(groups) for groups in rank["trained"]] == [4] * 4
        assert all(spread > 0 for groups in rank["trained"] for _, spread in groups)
    assert all(int(prompt) % 2 for groups in ranks[0]["trained"] for prompt, _ in groups)
    # the first rank drew more than the second, and together they drew the order of the data once
    drawn = ranks[0]["drawn"] + ranks[1]["drawn"]
    assert len(ranks[0]["drawn"]) > len(ranks[1]["drawn"])
    assert len(set(drawn)) == len(drawn) <= 64
    assert ranks[0]["weights"] == ranks[1]["weights"]
    assert ranks[0]["steps"] == ranks[1]["steps"] == 8
    for logged in ranks[0]["logged"]:
        assert logged["sampling/kept"] == 8
        assert logged["sampling/dropped_all_right"] > 0
    prompts = sum(logged["sampling/prompts"] for logged in ranks[0]["logged"])
    assert prompts == len(drawn)


@pytest.mark.thorough
def test_a_rank_without_a_single_group_takes_part_in_the_steps_of_the_other(tmp_path: Path) -> None:
    ranks = two_ranks(tmp_path, "partial")
    assert [len(groups) for groups in ranks[0]["trained"]] == [0] * 4
    assert [len(groups) for groups in ranks[1]["trained"]] == [4] * 4
    assert ranks[0]["weights"] == ranks[1]["weights"]
    assert ranks[0]["steps"] == ranks[1]["steps"] == 8
    assert all(logged["grad_norm"] > 0 for logged in ranks[0]["logged"])
