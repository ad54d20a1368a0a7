"""OPO: strictly on-policy steps, against the baseline that makes their variance smallest (Hao et al. 2025, arXiv:2505.23585)."""

from lightrl import GroupRelative, PolicyGradient, TokenMean, hookimpl
from lightrl_opo.length_weighted import LengthWeighted

__all__ = ["OPO", "LengthWeighted"]


class OPO(GroupRelative):
    """On-policy reinforcement learning with the optimal reward baseline.

    REINFORCE with `LengthWeighted`, one step per rollout: no ratio, no clip, no KL, no entropy bonus.

    Source: Hao et al. 2025, arXiv:2505.23585, algorithm 1.
    """

    best_for = "stable training without a single coefficient, where one optimizer step per rollout is affordable"

    advantage = LengthWeighted()
    clip = PolicyGradient()
    aggregation = TokenMean()


@hookimpl
def lightrl_algorithms() -> list[type]:
    return [OPO]


@hookimpl
def lightrl_advantages() -> list[type]:
    return [LengthWeighted]
