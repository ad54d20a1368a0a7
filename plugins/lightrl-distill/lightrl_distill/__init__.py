"""On-policy distillation: a policy learns from what a teacher says of the policy's own completions."""

from lightrl import (
    GroupRelative,
    GroupSampler,
    LossTerm,
    MovingAverageReference,
    NoAdvantage,
    PolicyGradient,
    Reference,
    Teacher,
    TokenMean,
    hookimpl,
)
from lightrl_distill.advantage_sum import AdvantageSum
from lightrl_distill.mixed_sampler import MixedSampler
from lightrl_distill.privileged import WITH_ANSWER, WITH_FEEDBACK, WITH_SOLUTION, PrivilegedTeacher
from lightrl_distill.teacher import ForwardKL, JensenShannon, ReverseKL, TeacherAdvantage, TeacherLoss

__all__ = [
    "GKD",
    "OPSD",
    "SDFT",
    "SDPO",
    "AdvantageSum",
    "ForwardKL",
    "JensenShannon",
    "MixedSampler",
    "OnPolicyDistillation",
    "PrivilegedTeacher",
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


class OPSD(GKD):
    """On-policy self-distillation: the teacher is the policy as it was at first, which is shown the answer.

    The code that belongs to the paper clips the entries of the divergence (`ForwardKL.clip` 0.05); the paper and this algorithm do not.

    Source: Zhao et al. 2026, arXiv:2601.18734.
    """

    best_for = "data with worked solutions, and a policy that can follow one that it is shown; no second model, no reward"

    teacher: Reference | None = PrivilegedTeacher(templates=[WITH_ANSWER])
    distillation: LossTerm | None = TeacherLoss(ForwardKL())


class SDFT(OPSD):
    """Self-distillation fine-tuning: the teacher follows the policy, and is shown the data's demonstration.

    Source: Shenfeld et al. 2026, arXiv:2601.19897; what the demonstration is called and the rate of the average are chosen here.
    """

    best_for = "demonstrations to be learnt from without forgetting what the policy could do before"

    teacher: Reference | None = PrivilegedTeacher(templates=[WITH_ANSWER], reference=MovingAverageReference(mixture=0.01, every=1))
    distillation: LossTerm | None = TeacherLoss(ReverseKL())


class SDPO(SDFT):
    """Self-distillation policy optimization: the teacher is shown another completion of the group that was right, or else the feedback.

    KL(pi_theta(. | x, o_<t) || pi_T(. | x, f, o_<t)), over the whole vocabulary, without a gradient through the teacher, which is a moving
    average of the policy. A row without either is not learnt from. The words of the templates are not the paper's.

    Source: Hübotter et al. 2026, arXiv:2601.20802.
    """

    best_for = "rewards that can be checked, or environments that say what went wrong; no second model, and a signal for each token"

    sampler = GroupSampler(group_size=8)
    teacher: Reference | None = PrivilegedTeacher(
        templates=[WITH_SOLUTION, WITH_FEEDBACK], reference=MovingAverageReference(mixture=0.01, every=1)
    )


@hookimpl
def lightrl_algorithms() -> list[type]:
    return [GKD, OPSD, SDFT, SDPO, OnPolicyDistillation]


@hookimpl
def lightrl_advantages() -> list[type]:
    return [AdvantageSum, TeacherAdvantage]


@hookimpl
def lightrl_loss_terms() -> list[type]:
    return [TeacherLoss]


@hookimpl
def lightrl_samplers() -> list[type]:
    return [MixedSampler]


@hookimpl
def lightrl_outputs() -> list[type]:
    return [ForwardKL, JensenShannon, ReverseKL]


@hookimpl
def lightrl_references() -> list[type]:
    return [PrivilegedTeacher]
