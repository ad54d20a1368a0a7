"""One step of plain SGD in float64 with parts that choose tokens over a whole step.

    python one_step.py RANKS FILE

takes it on so many ranks, each of which has its share of the same rows, and writes its gradient to FILE.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
from lightrl_workshop import gradient_of_step, random_rollout
from lightrl_zoo import ClipCov, CovarianceClip, CovarianceKL, ForkingTokens, GeometricRejection, KLCov, TopEntropy, UnitMean

from lightrl import Algorithm, GroupRelative, GroupSampler, MaskedImportance, Rollout, TinyPolicy

POLICY = TinyPolicy(hidden=16, layers=1, heads=2, dtype="float64")


def clip_cov() -> CovarianceClip:
    """With so many candidates that some are drawn and some are not."""
    return CovarianceClip(0.2, 0.28, share=0.1, lower=0.1)


ALGORITHMS: dict[str, Callable[[], Algorithm]] = {
    "clip_cov": lambda: ClipCov(sampler=GroupSampler(4), clip=clip_cov()),
    "kl_cov": lambda: KLCov(sampler=GroupSampler(4), kl_cov=CovarianceKL(share=0.1)),
    "high entropy": lambda: ForkingTokens(sampler=GroupSampler(4)),
    "unit mean": lambda: GroupRelative(
        sampler=GroupSampler(4),
        correction=UnitMean(MaskedImportance(level="sequence", low=0.2), level="sequence"),
        old_logprobs="recompute",
    ),
    "all": lambda: KLCov(
        sampler=GroupSampler(4),
        kl_cov=CovarianceKL(share=0.1),
        clip=TopEntropy(clip=clip_cov(), share=0.5),
        correction=GeometricRejection(0.8, 1.2, importance=UnitMean()),
        old_logprobs="recompute",
    ),
}


def rows() -> Rollout:
    """Sixteen rows in four groups, each of which has two equal ones."""
    rollout = random_rollout(POLICY.build(), groups=4, group_size=4)
    rollout = rollout.select([i - 1 if i % 4 == 1 else i for i in range(16)])
    rollout.seeds = torch.arange(16) * 7919
    return rollout


def main() -> None:
    """Take the step."""
    torch.set_num_threads(1)
    ranks, file = int(sys.argv[1]), sys.argv[2]
    found = gradient_of_step(ALGORITHMS["all"](), rows(), POLICY, 64, ranks)
    if ranks == 1 or torch.distributed.get_rank() == 0:
        torch.save(found, file)


if __name__ == "__main__":
    main()
