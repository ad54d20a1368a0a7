"""REINFORCE (Williams 1992)."""

from typing import Any

from jsonargparse import lazy_instance

from lightrl import Advantage, Aggregation, Algorithm, ClipScheme, GroupSampler, PolicyGradient, Sampler, SequenceSum
from lightrl_ppo.baselines import BatchCentered


class REINFORCE(Algorithm):
    """The score function estimator with a baseline.

    J = 1/N sum_i sum_t (G_t - b) log pi(o_t), one optimizer step per rollout.

    Source: Williams 1992, Machine Learning 8.
    """

    best_for = "the plainest thing that works: one completion per prompt, no critic, one step per rollout"

    def __init__(
        self,
        sampler: Sampler = lazy_instance(GroupSampler, group_size=1),
        advantage: Advantage = lazy_instance(BatchCentered),
        clip: ClipScheme = lazy_instance(PolicyGradient),
        aggregation: Aggregation = lazy_instance(SequenceSum),
        **kwargs: Any,
    ) -> None:
        """
        Args:
            sampler: which completions the policy learns from.
            advantage: the return and its baseline: DiscountedReturn (none), BatchCentered, MovingAverageCentered.
            clip: how far one update may go; PolicyGradient is for one step per rollout.
            aggregation: what a token weighs in the loss.
            **kwargs: the other slots of `Algorithm`.
        """
        super().__init__(sampler=sampler, advantage=advantage, clip=clip, aggregation=aggregation, **kwargs)
