"""The defaults are the paper's, the history reaches a resumed run, and identical groups still teach."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightrl_dcpo import DCPO, DynamicAdaptiveClip, SmoothedAdvantage
from lightrl_workshop import CodePoints, quiet_trainer

from lightrl import (
    DigitSorting,
    GroupSampler,
    PolicyOptimization,
    Prompt,
    PromptData,
    SequenceSumTokenMean,
    TinyPolicy,
    TokenRatio,
    TransformersEngine,
)
from lightrl.registry.classes import registry


def test_the_defaults_are_the_papers() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dcpo = DCPO()
    assert type(dcpo.sampler) is GroupSampler
    assert dcpo.sampler.group_size == 16
    assert isinstance(dcpo.clip, DynamicAdaptiveClip)
    assert (dcpo.clip.low, dcpo.clip.high, dcpo.clip.cap) == (0.16, 0.2, 10.0)
    assert isinstance(dcpo.aggregation, SequenceSumTokenMean)
    assert dcpo.aggregation.over == "prompt"
    assert type(dcpo.ratio) is TokenRatio
    assert dcpo.kl is dcpo.token_weight is dcpo.critic is None
    assert DCPO().advantage is not dcpo.advantage


@pytest.mark.parametrize(("kind", "cls"), [("algorithm", DCPO), ("advantage", SmoothedAdvantage), ("clip scheme", DynamicAdaptiveClip)])
def test_the_hooks_register_it(kind: str, cls: type) -> None:
    assert registry().resolve(kind, cls.__name__) is cls


class Witness(Callback):
    """Advantages and what was logged."""

    def __init__(self) -> None:
        self.advantages: list[torch.Tensor] = []
        self.logged: list[dict[str, float]] = []

    def on_train_epoch_end(self, trainer: Trainer, pl_module: Any) -> None:
        self.advantages.append(pl_module.experience.advantages)
        self.logged.append({name: float(value) for name, value in trainer.logged_metrics.items()})


class EveryThird(CodePoints):
    """Right or wrong by the letters of the completion."""

    def score(self, prompt: Prompt, completion: str) -> float:
        return float(super().score(prompt, completion) == 0)


def fit(folder: Path, rollouts: int, *callbacks: Callback, **more: Any) -> PolicyOptimization:
    """Rollouts of four of eight prompts: each comes back every second rollout."""
    module = PolicyOptimization(
        policy=TinyPolicy(hidden=16, layers=1, heads=2),
        algorithm=DCPO(sampler=GroupSampler(4), minibatches=2),
        rewards={"third": EveryThird(modulus=3)},
        engine=TransformersEngine(max_new_tokens=6),
        prompts_per_rollout=4,
        optimizer=lambda p: torch.optim.AdamW(p, lr=1e-3),
    )
    quiet_trainer(max_epochs=rollouts, default_root_dir=folder, callbacks=callbacks).fit(
        module, datamodule=PromptData(train=DigitSorting(length=3, examples=8)), **more
    )
    return module


def test_a_resumed_run_remembers_every_prompt(tmp_path: Path) -> None:
    whole, rest = Witness(), Witness()
    one = fit(tmp_path, 5, whole)
    saver = ModelCheckpoint(tmp_path, filename="{epoch}", save_top_k=-1, every_n_epochs=1)
    fit(tmp_path, 3, saver)
    resumed = fit(tmp_path, 5, rest, ckpt_path=saver.best_model_path, weights_only=True)
    assert [logged["smoothing/seen_before"] for logged in whole.logged] == [0, 0, 1, 1, 1]
    assert [logged["smoothing/seen_before"] for logged in rest.logged] == [1, 1]
    assert all(torch.equal(a, b) for a, b in zip(whole.advantages[3:], rest.advantages, strict=True))
    assert one.algorithm.advantage.state_dict() == resumed.algorithm.advantage.state_dict()
    assert all(torch.equal(value, resumed.policy.state_dict()[name]) for name, value in one.policy.state_dict().items())


def test_the_papers_ratios_are_logged(tmp_path: Path) -> None:
    witness = Witness()
    fit(tmp_path, 5, witness)
    names = {"token_clipping_ratio", "response_utilization_ratio", "smoothing/seen_before", "clip_ratio/capped"}
    assert names <= set(witness.logged[-1])
    assert witness.logged[-1]["token_clipping_ratio"] == pytest.approx(witness.logged[-1]["clip_ratio/region"])
    assert "smoothing/picked_new" in witness.logged[-1]
