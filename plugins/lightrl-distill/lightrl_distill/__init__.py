"""On-policy distillation: a policy learns from what a teacher says of the policy's own completions."""

from lightrl import GroupRelative, GroupSampler, LossTerm, PolicyGradient, Teacher, TokenMean, hookimpl
from lightrl_distill.advantage_sum import AdvantageSum
from lightrl_distill.mixed_sampler import MixedSampler
from lightrl_distill.teacher import ForwardKL, JensenShannon, NoAdvantage, ReverseKL, TeacherAdvantage, TeacherLoss

__all__ = [
    "GKD",
    "AdvantageSum",
    "ForwardKL",
    "JensenShannon",
    "MixedSampler",
    "NoAdvantage",
    "OnPolicyDistillation",
    "ReverseKL",
    "TeacherAdvantage",
    "TeacherLoss",
]


class OnPolicyDistillation(GroupRelative):
    """On-policy distillation: the reverse KL to a teacher in place of a reward.

    The policy samples, the teacher rates each sampled token, and a policy gradient follows the difference.

    Source: Lu et al. 2025, On-Policy Distillation, Thinking Machines Lab.
    """

    best_for = "a small policy and a larger one with the same tokens that can already do the task"

    sampler = GroupSampler(group_size=4)
    advantage = TeacherAdvantage()
    clip = PolicyGradient()
    aggregation = TokenMean()
    teacher = Teacher()


class GKD(OnPolicyDistillation):
    """Generalised knowledge distillation, on the policy's own completions unless the sampler mixes in others.

    Source: Agarwal et al. 2024, arXiv:2306.13649, section 3; lambda is 1 here, and `MixedSampler.student_share` with that sampler.
    """

    best_for = "a small policy, and a larger one with the same tokens on the same machine, whose whole distribution says more per token"

    advantage = NoAdvantage()
    distillation: LossTerm | None = TeacherLoss()
    """The divergence from the teacher."""


@hookimpl
def lightrl_algorithms() -> list[type]:
    return [GKD, OnPolicyDistillation]


@hookimpl
def lightrl_advantages() -> list[type]:
    return [AdvantageSum, NoAdvantage, TeacherAdvantage]


@hookimpl
def lightrl_loss_terms() -> list[type]:
    return [TeacherLoss]


@hookimpl
def lightrl_samplers() -> list[type]:
    return [MixedSampler]


@hookimpl
def lightrl_outputs() -> list[type]:
    return [ForwardKL, JensenShannon, ReverseKL]
