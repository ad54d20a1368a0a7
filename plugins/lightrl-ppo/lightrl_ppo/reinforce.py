"""REINFORCE (Williams 1992)."""

from lightrl import Algorithm, GroupSampler, PolicyGradient, SequenceSum
from lightrl_ppo.baselines import BatchCentered


class REINFORCE(Algorithm):
    """The score function estimator with a baseline.

    J = 1/N sum_i sum_t (G_t - b) log pi(o_t), one optimizer step per rollout.

    Source: Williams 1992, Machine Learning 8.
    """

    best_for = "the plainest thing that works: one completion per prompt, no critic, one step per rollout"

    sampler = GroupSampler(group_size=1)
    advantage = BatchCentered()
    """The return and its baseline: DiscountedReturn (none), BatchCentered, MovingAverageCentered."""
    clip = PolicyGradient()
    """How far one update may go; PolicyGradient is for one step per rollout."""
    aggregation = SequenceSum()
