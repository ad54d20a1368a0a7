"""OPO: strictly on-policy steps, against the baseline that makes their variance smallest (Hao et al. 2025, arXiv:2505.23585)."""

from typing import Any

from jsonargparse import lazy_instance

from lightrl import Advantage, Aggregation, ClipScheme, GroupRelative, PolicyGradient, TokenMean, hookimpl
from lightrl_opo.length_weighted import LengthWeighted

__all__ = ["OPO", "LengthWeighted"]


class OPO(GroupRelative):
    """On-policy reinforcement learning with the optimal reward baseline.

    REINFORCE with `LengthWeighted`, one step per rollout: no ratio, no clip, no KL, no entropy bonus.

    Source: Hao et al. 2025, arXiv:2505.23585, algorithm 1.
    """

    best_for = "stable training without a single coefficient, where one optimizer step per rollout is affordable"

    def __init__(
        self,
        advantage: Advantage = lazy_instance(LengthWeighted),
        clip: ClipScheme = lazy_instance(PolicyGradient),
        aggregation: Aggregation = lazy_instance(TokenMean),
        **kwargs: Any,
    ) -> None:
        """
        Args:
            advantage: how much better than expected a completion was.
            clip: how far one update may go.
            aggregation: what a token weighs in the loss.
            **kwargs: the other slots of `GroupRelative`.
        """
        super().__init__(advantage=advantage, clip=clip, aggregation=aggregation, **kwargs)


@hookimpl
def lightrl_algorithms() -> list[type[Any]]:
    return [OPO]


@hookimpl
def lightrl_advantages() -> list[type[Any]]:
    return [LengthWeighted]
