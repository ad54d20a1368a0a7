"""One step of plain SGD in float64 with parts that choose tokens over a whole step.

    python one_step.py RANKS FILE

takes it on so many ranks, each of which has its share of the same rows, and writes the change of the parameters to FILE.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
from lightning.pytorch import Callback
from lightrl_zoo import ClipCov, CovarianceClip, CovarianceKL, ForkingTokens, KLCov, TopEntropy

from lightrl import Algorithm, DigitSorting, GroupSampler, PolicyOptimization, PromptData, Rollout, TinyPolicy, TransformersEngine
from lightrl.testing import CodePoints, ReplayedRollouts, quiet_trainer, random_rollout

POLICY = TinyPolicy(hidden=16, layers=1, heads=2, dtype="float64")


def clip_cov() -> CovarianceClip:
    """With so many candidates that some are drawn and some are not."""
    return CovarianceClip(0.2, 0.28, share=0.1, lower=0.1)


ALGORITHMS: dict[str, Callable[[], Algorithm]] = {
    "clip_cov": lambda: ClipCov(sampler=GroupSampler(4), clip=clip_cov()),
    "kl_cov": lambda: KLCov(sampler=GroupSampler(4), kl_cov=CovarianceKL(share=0.1)),
    "high entropy": lambda: ForkingTokens(sampler=GroupSampler(4)),
    "all": lambda: KLCov(sampler=GroupSampler(4), kl_cov=CovarianceKL(share=0.1), clip=TopEntropy(clip=clip_cov(), share=0.5)),
}


def rows() -> Rollout:
    """Sixteen rows in four groups, each of which has two equal ones."""
    rollout = random_rollout(POLICY.build(), groups=4, group_size=4)
    rollout = rollout.select([i - 1 if i % 4 == 1 else i for i in range(16)])
    rollout.seeds = torch.arange(16) * 7919
    return rollout


class Share(ReplayedRollouts):
    """The groups of one rank, numbered from 0."""

    def __init__(self, rollout: Rollout, rank: int, ranks: int) -> None:
        groups = torch.unique(rollout.group).tolist()[rank::ranks]
        mine = rollout.select([i for group in groups for i in (rollout.group == group).nonzero()[:, 0].tolist()])
        mine.group = torch.tensor([groups.index(group) for group in mine.group.tolist()])
        super().__init__(mine)


class OfMyRank(Callback):
    """Replays the share of this rank."""

    def __init__(self, rollout: Rollout) -> None:
        self.rollout = rollout

    def on_fit_start(self, trainer, pl_module) -> None:
        pl_module.rollouts = Share(self.rollout, trainer.global_rank, trainer.world_size)


def change(algorithm: Algorithm, rollout: Rollout, budget: int | None, ranks: int = 1) -> torch.Tensor:
    """The change of the parameters, in one vector."""
    module = PolicyOptimization(
        policy=POLICY,
        algorithm=algorithm,
        rewards={"codes": CodePoints()},
        engine=TransformersEngine(max_new_tokens=16),
        prompts_per_rollout=4,
        micro_batch_tokens=budget,
        optimizer=lambda p: torch.optim.SGD(p, lr=1.0),
        max_grad_norm=None,
    )
    trainer = quiet_trainer(max_epochs=1, devices=ranks, strategy="ddp" if ranks > 1 else "auto", callbacks=[OfMyRank(rollout)])
    trainer.fit(module, datamodule=PromptData(train=DigitSorting(examples=100)))
    before = POLICY.build().state_dict()
    return torch.cat([(before[name] - now).flatten() for name, now in module.policy.state_dict().items()])


def main() -> None:
    """Take the step."""
    torch.set_num_threads(1)
    ranks, file = int(sys.argv[1]), sys.argv[2]
    found = change(ALGORITHMS["all"](), rows(), 64, ranks)
    if ranks == 1 or torch.distributed.get_rank() == 0:
        torch.save(found, file)


if __name__ == "__main__":
    main()
