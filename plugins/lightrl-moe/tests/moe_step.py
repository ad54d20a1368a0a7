"""Two optimizer steps of a mixture on a prepared rollout, its groups shared by one or two ranks; started by test_moe_ranks.py.

python moe_step.py RANKS FILE
"""

from __future__ import annotations

import sys

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightrl_moe import ReplayedTokenRatio, RouterBalance, TinyMixture
from lightrl_workshop import CodePoints, ReplayedRollouts, quiet_trainer, random_rollout

from lightrl import (
    DecoupledClip,
    DigitSorting,
    GroupNormalized,
    GroupRelative,
    GroupSampler,
    PolicyOptimization,
    PromptData,
    TokenMean,
    TransformersEngine,
)

SOURCE = TinyMixture(experts=4, hidden=16, layers=2, heads=2, dtype="float64")


class OwnGroups(Callback):
    """Lets each rank replay its groups: three of four are those of the first."""

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        rollout = random_rollout(SOURCE.build(), groups=4, group_size=4)
        mine = torch.ones(len(rollout)).bool() if trainer.world_size == 1 else (rollout.group == 3) == (trainer.global_rank == 1)
        pl_module.collector.rollouts = ReplayedRollouts(rollout.select(mine.nonzero()[:, 0]))


def main(ranks: int, file: str) -> None:
    """Take the steps, and write the change of all weights."""
    module = PolicyOptimization(
        policy=SOURCE,
        algorithm=GroupRelative(
            sampler=GroupSampler(group_size=4),
            advantage=GroupNormalized(),
            clip=DecoupledClip(low=0.2, high=0.28),
            aggregation=TokenMean(),
            ratio=ReplayedTokenRatio(),
            balance=RouterBalance(coefficient=1.0),
            epochs=2,
        ),
        rewards={"codes": CodePoints()},
        engine=TransformersEngine(max_new_tokens=16),
        prompts_per_rollout=4,
        micro_batch_tokens=32,
        optimizer=lambda p: torch.optim.SGD(p, lr=1.0),
        max_grad_norm=None,
    )
    trainer = quiet_trainer(devices=ranks, strategy="ddp" if ranks > 1 else "auto", max_epochs=1, callbacks=[OwnGroups()])
    trainer.fit(module, datamodule=PromptData(train=DigitSorting(examples=100)))
    if trainer.is_global_zero:
        before = SOURCE.build().state_dict()
        change = {name: before[name] - now for name, now in module.policy.state_dict().items()}
        torch.save(change | {"rerouted": trainer.logged_metrics["rerouted/tokens"].cpu()}, file)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(int(sys.argv[1]), sys.argv[2])
