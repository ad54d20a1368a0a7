"""Trains a tiny policy and prints the hash of its weights: `python split_run.py MODEL DEVICES TOKENS ROWS FIRST ROLLOUTS FOLDER`.

The run stops after FIRST rollouts and is resumed from its checkpoint, unless FIRST is 0.
"""

# ruff: noqa: T201
from __future__ import annotations

import hashlib
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Trainer
from lightrl_bitwise import BitwiseEngine, BitwisePolicy
from lightrl_workshop import FewCharacters, quiet_trainer

from lightrl import DigitSorting, FrozenReference, GroupRelative, GroupSampler, KLPenalty, PolicyOptimization, PromptData, TinyPolicy


class TinyFamily(TinyPolicy):
    """A tiny policy of a family of transformers, some of whose heads share keys."""

    def __init__(self, family: str) -> None:
        super().__init__(hidden=32, layers=2, heads=4)
        self.family = family

    def config(self) -> Any:
        """See `TinyPolicy.config`."""
        from transformers import AutoConfig

        heads = {"num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 64, "sliding_window": None}
        return AutoConfig.for_model(self.family, **{**self.sizes(), **heads})


def module(family: str, tokens: int | None, rows: int, **settings: Any) -> PolicyOptimization:
    """Of a run with two optimizer steps per rollout, so that its ratios are not all 1."""
    return PolicyOptimization(
        policy=BitwisePolicy(TinyFamily(family)),
        algorithm=GroupRelative(
            sampler=GroupSampler(group_size=4), kl=KLPenalty(estimator="k3", loss_coefficient=0.04), reference=FrozenReference(), epochs=2
        ),
        rewards={"few": FewCharacters()},
        engine=BitwiseEngine(max_new_tokens=12, max_rows=rows),
        prompts_per_rollout=4,
        micro_batch_tokens=tokens,
        optimizer=partial(torch.optim.AdamW, lr=1e-3),
        **settings,
    )


def weights_hash(policy: torch.nn.Module) -> str:
    """SHA-256 of all parameters."""
    found = hashlib.sha256()
    for parameter in policy.parameters():
        found.update(parameter.detach().numpy().tobytes())
    return found.hexdigest()


def fitted(run: PolicyOptimization, rollouts: int, devices: int = 1, checkpoint: Path | None = None) -> Trainer:
    """The trainer of a run that has made so many rollouts."""
    trainer = quiet_trainer(max_epochs=rollouts, devices=devices, strategy="auto" if devices == 1 else "ddp", limit_val_batches=0)
    trainer.fit(run, datamodule=PromptData(train=DigitSorting(length=4, examples=64)), ckpt_path=checkpoint)
    return trainer


def main(family: str, devices: int, tokens: int, rows: int, first: int, rollouts: int, folder: Path) -> None:
    checkpoint = None
    if first:
        checkpoint = folder / "first.ckpt"
        fitted(module(family, tokens, rows), first, devices).save_checkpoint(checkpoint)
    run = module(family, tokens, rows)
    trainer = fitted(run, rollouts, devices, checkpoint)
    if trainer.is_global_zero:
        print("weights", weights_hash(run.learner.policy), flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1], *(int(word) for word in sys.argv[2:7]), Path(sys.argv[7]))
