"""RLOO (Ahmadian et al. 2024, arXiv:2402.14740)."""

from lightrl import GroupRelative, KLPenalty, LeaveOneOut, PolicyGradient, SequenceSum


class RLOO(GroupRelative):
    """REINFORCE leave-one-out: each completion compared with the mean of the others of its prompt.

    J = 1/N sum_i (R_i - mean of the others' R) sum_t log pi(o_t), with -beta sum_t k1 inside R; a completion is one action.

    Source: Ahmadian et al. 2024, arXiv:2402.14740, section 3.2; beta 0.03 (TL;DR) or 0.10 (HH).
    """

    best_for = "few completions per prompt and one step per rollout; unbiased, without a division by a deviation"

    sampler = GroupRelative.sampler.but(group_size=4)
    advantage = LeaveOneOut()
    clip = PolicyGradient()
    """How far one update may go; PolicyGradient is for one step per rollout."""
    aggregation = SequenceSum()
    kl = KLPenalty(estimator="k1", reward_coefficient=0.03)
