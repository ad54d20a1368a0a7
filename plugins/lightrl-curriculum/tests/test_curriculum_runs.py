"""A run that is resumed is the run that was never interrupted, bit for bit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightrl_curriculum import EdgeSampler, LinearShare, Mixture, ReplaySampler
from lightrl_workshop import CodePoints, quiet_trainer

from lightrl import (
    Addition,
    GroupRelative,
    PolicyOptimization,
    PromptData,
    Reversal,
    Sampler,
    TinyPolicy,
    TransformersEngine,
)

WEIGHTS = {"add": LinearShare(1, 0.2, 60), "turn": LinearShare(0.2, 1, 60)}


class Witness(Callback):
    """The prompts and rewards of every rollout."""

    def __init__(self) -> None:
        self.seen: list[tuple[list[str], list[float]]] = []

    def on_train_epoch_end(self, trainer: Trainer, pl_module: Any) -> None:
        rows = pl_module.experience
        self.seen.append(([prompt.id for prompt in rows.prompts], rows.rewards.tolist()))


def fit(folder: Path, sampler: Sampler, rollouts: int, *callbacks: Callback, **more: Any) -> PolicyOptimization:
    module = PolicyOptimization(
        policy=TinyPolicy(hidden=16, layers=1, heads=2),
        algorithm=GroupRelative(sampler=sampler),
        rewards={"even": CodePoints(modulus=2)},
        engine=TransformersEngine(max_new_tokens=4),
        prompts_per_rollout=4,
        optimizer=lambda p: torch.optim.AdamW(p, lr=1e-2),
    )
    data = PromptData(train=Mixture({"add": Addition(1, 40), "turn": Reversal(2, 40)}, WEIGHTS))
    quiet_trainer(max_epochs=rollouts, default_root_dir=folder, callbacks=callbacks).fit(module, datamodule=data, **more)
    return module


@pytest.mark.parametrize("make", [lambda: EdgeSampler(4, level="source"), lambda: ReplaySampler(4, cooldown=1)], ids=["edge", "replay"])
def test_a_resumed_run_draws_and_learns_exactly_the_rest(make: Any, tmp_path: Path) -> None:
    whole, rest = Witness(), Witness()
    one = fit(tmp_path, make(), 6, whole)
    saver = ModelCheckpoint(tmp_path, filename="{epoch}", save_top_k=-1, every_n_epochs=1)
    fit(tmp_path, make(), 3, saver)
    resumed = fit(tmp_path, make(), 6, rest, ckpt_path=saver.best_model_path, weights_only=True)
    assert whole.seen[3:] == rest.seen
    assert one.algorithm.sampler.state_dict() == resumed.algorithm.sampler.state_dict()
    assert all(torch.equal(value, resumed.policy.state_dict()[name]) for name, value in one.policy.state_dict().items())


@pytest.mark.thorough
@pytest.mark.parametrize("sampler", [pytest.param("edge", marks=pytest.mark.rare), "replay"])
def test_two_processes_draw_each_prompt_once_and_remember_the_same(sampler: str, tmp_path: Path) -> None:
    script = Path(__file__).with_name("two_ranks_curriculum.py")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1"}
    words = [sys.executable, script, tmp_path, sampler]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    one, other = (json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in range(2))
    drawn = one["drawn"] + other["drawn"]
    assert len(set(drawn)) == len(drawn) <= 90
    assert one["state"] == other["state"]
    assert one["state"]["learnt"] == 5
    for here, there in zip(one["completed"], other["completed"], strict=True):
        assert len({*here, *there}) == 8
    assert {name for rollout in one["completed"] + other["completed"] for name in rollout} <= set(drawn)
