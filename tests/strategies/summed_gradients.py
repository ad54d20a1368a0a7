"""Writes the gradient of one rollout as a strategy sums it: `python summed_gradients.py STRATEGY PRECISION MICRO_BATCH_TOKENS FILE`."""

from __future__ import annotations

import sys
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer
from lightrl_workshop import FirstDigits, quiet_trainer
from torch import Tensor

from lightrl import DigitSorting, GroupRelative, GroupSampler, PolicyOptimization, PromptData, TinyPolicy, TransformersEngine


class Moved(Callback):
    """How far the optimizer has moved the float32 weights, of which there is one share, for there is one rank."""

    def on_train_epoch_start(self, trainer: Trainer, pl_module: Any) -> None:
        self.first = moved_weights(trainer)

    def on_train_end(self, trainer: Trainer, pl_module: Any) -> None:
        self.moved = moved_weights(trainer) - self.first


def moved_weights(trainer: Trainer) -> Tensor:
    engine: Any = trainer.strategy.model
    optimizer = getattr(engine, "optimizer", None) or trainer.optimizers[0]
    shares = getattr(optimizer, "fp32_partitioned_groups_flat", None) or getattr(optimizer, "single_partition_of_fp32_groups", None)
    weights = shares or [p for group in optimizer.param_groups for p in group["params"]]
    return torch.cat([p.detach().flatten() for p in weights]).clone()


def main(strategy: str, precision: Any, micro_batch_tokens: str, file: str) -> None:
    torch.set_num_threads(1)
    module = PolicyOptimization(
        policy=TinyPolicy(hidden=32, layers=2, heads=4),
        algorithm=GroupRelative(sampler=GroupSampler(group_size=4)),
        rewards={"digits": FirstDigits()},
        engine=TransformersEngine(max_new_tokens=8),
        prompts_per_rollout=16,
        micro_batch_tokens=int(micro_batch_tokens),
        # its first step is the gradient g over 1 + |g|
        optimizer=lambda p: torch.optim.AdamW(p, lr=1.0, eps=1.0, weight_decay=0.0),
        max_grad_norm=None,
    )
    moved = Moved()
    trainer = quiet_trainer(accelerator="cpu", devices=1, strategy=strategy, precision=precision, max_epochs=1, callbacks=[moved])
    trainer.fit(module, datamodule=PromptData(train=DigitSorting(examples=16), validation_size=0))
    torch.save(moved.moved, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
