"""RLOO (Ahmadian et al. 2024, arXiv:2402.14740)."""

from typing import Any

from jsonargparse import lazy_instance

from lightrl import (
    KL,
    Advantage,
    Aggregation,
    ClipScheme,
    GroupRelative,
    GroupSampler,
    KLPenalty,
    LeaveOneOut,
    PolicyGradient,
    Sampler,
    SequenceSum,
)


class RLOO(GroupRelative):
    """REINFORCE leave-one-out: each completion compared with the mean of the others of its prompt.

    J = 1/N sum_i (R_i - mean of the others' R) sum_t log pi(o_t), with -beta sum_t k1 inside R; a completion is one action.

    Source: Ahmadian et al. 2024, arXiv:2402.14740, section 3.2; beta 0.03 (TL;DR) or 0.10 (HH).
    """

    best_for = "few completions per prompt and one step per rollout; unbiased, without a division by a deviation"

    def __init__(
        self,
        sampler: Sampler = lazy_instance(GroupSampler, group_size=4),
        advantage: Advantage = lazy_instance(LeaveOneOut),
        clip: ClipScheme = lazy_instance(PolicyGradient),
        aggregation: Aggregation = lazy_instance(SequenceSum),
        kl: KL | None = lazy_instance(KLPenalty, estimator="k1", reward_coefficient=0.03),
        **kwargs: Any,
    ) -> None:
        """
        Args:
            sampler: which completions the policy learns from.
            advantage: how much better than the others a completion was.
            clip: how far one update may go; PolicyGradient is for one step per rollout.
            aggregation: what a token weighs in the loss.
            kl: how the policy is tied to the reference; null trains without one.
            **kwargs: the other slots of `GroupRelative`.
        """
        super().__init__(sampler=sampler, advantage=advantage, clip=clip, aggregation=aggregation, kl=kl, **kwargs)
