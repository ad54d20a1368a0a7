"""The gradient of a distillation on completions of the policy and of the data, on two ranks; started by test_distill_ranks.py.

python distill_step.py RANKS FILE
"""

from __future__ import annotations

import sys

import torch
from lightrl_distill import GKD, MixedSampler, ReverseKL, TeacherAdvantage, TeacherLoss
from lightrl_workshop import gradient_of_step

from lightrl import Teacher, TinyPolicy


def policy_of(seed: int, hidden: int = 16) -> TinyPolicy:
    """A tiny policy in float64."""
    return TinyPolicy(hidden=hidden, layers=1, heads=2, dtype="float64", seed=seed)


def gradient(ranks: int) -> torch.Tensor:
    """Of every kind of distillation at once."""
    algorithm = GKD(
        sampler=MixedSampler(student_share=0.5),
        advantage=TeacherAdvantage(gamma=0.5),
        distillation=TeacherLoss(ReverseKL()),
        teacher=Teacher(policy_of(7, hidden=24), offload="cpu"),
    )
    return gradient_of_step(algorithm, None, policy_of(0), budget=64, ranks=ranks)


if __name__ == "__main__":
    torch.set_num_threads(1)
    found = gradient(int(sys.argv[1]))
    if torch.distributed.get_rank() == 0:
        torch.save(found, sys.argv[2])
