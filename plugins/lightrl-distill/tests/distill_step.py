"""One optimizer step of a distillation on a prepared rollout, its groups shared by one or two ranks; started by test_distill_ranks.py.

python distill_step.py RANKS FILE
"""

from __future__ import annotations

import sys

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightrl_distill import GKD, ReverseKL, TeacherAdvantage, TeacherLoss

from lightrl import DigitSorting, GroupSampler, PolicyOptimization, PromptData, Teacher, TinyPolicy, TransformersEngine
from lightrl.testing import ReplayedRollouts, quiet_trainer, random_rollout


def policy_of(seed: int, hidden: int = 16) -> TinyPolicy:
    """A tiny policy in float64."""
    return TinyPolicy(hidden=hidden, layers=1, heads=2, dtype="float64", seed=seed)


class OwnGroups(Callback):
    """Lets each rank replay its groups."""

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        rollout = random_rollout(policy_of(0).build(), groups=4, group_size=4)
        pl_module.rollouts = ReplayedRollouts(rollout.select((rollout.group % trainer.world_size == trainer.global_rank).nonzero()[:, 0]))


def main(ranks: int, file: str) -> None:
    """Take the step, and write the change of all weights."""
    module = PolicyOptimization(
        policy=policy_of(0),
        algorithm=GKD(
            sampler=GroupSampler(group_size=4),
            advantage=TeacherAdvantage(gamma=0.5),
            distillation=TeacherLoss(ReverseKL()),
            teacher=Teacher(policy_of(7, hidden=24), offload="cpu"),
        ),
        engine=TransformersEngine(max_new_tokens=16),
        prompts_per_rollout=4,
        micro_batch_tokens=64,
        optimizer=lambda p: torch.optim.SGD(p, lr=1.0),
        max_grad_norm=None,
    )
    trainer = quiet_trainer(devices=ranks, strategy="ddp" if ranks > 1 else "auto", max_epochs=1, callbacks=[OwnGroups()])
    trainer.fit(module, datamodule=PromptData(train=DigitSorting(examples=100)))
    if trainer.is_global_zero:
        before = policy_of(0).build().state_dict()
        torch.save({name: before[name] - now for name, now in module.policy.state_dict().items()}, file)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(int(sys.argv[1]), sys.argv[2])
