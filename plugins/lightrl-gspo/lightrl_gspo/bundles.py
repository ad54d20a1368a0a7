"""GSPO, and GSPO-token for advantages that differ within a completion."""

from typing import Any

from jsonargparse import lazy_instance

from lightrl import ClipScheme, DecoupledClip, GroupRelative, ImportanceRatio, SequenceRatio
from lightrl_gspo.ratio import SequenceTokenRatio


class GSPO(GroupRelative):
    """Group sequence policy optimisation: the ratio, and with it the clip, is of whole completions.

    J = 1/G sum_i min(s_i A_i, clip(s_i, 1 - 3e-4, 1 + 4e-4) A_i), s_i = exp(1/L_i sum_t log(pi / old)); no KL, four minibatches
    per rollout.

    Source: Zheng et al. 2025, arXiv:2507.18071, eqs. 5 to 7 and section 5.1.
    """

    best_for = "mixture-of-experts policies and long completions, where single tokens' ratios are mostly noise"

    def __init__(
        self,
        ratio: ImportanceRatio = lazy_instance(SequenceRatio),
        clip: ClipScheme = lazy_instance(DecoupledClip, low=3e-4, high=4e-4),
        minibatches: int = 4,
        **kwargs: Any,
    ) -> None:
        """
        Args:
            ratio: new policy against old, here per completion.
            clip: how far one update may go; a sequence's ratio moves far less than a token's.
            minibatches: optimizer steps per pass, each on whole groups; at least 1.
            **kwargs: the other slots of `GroupRelative`.
        """
        super().__init__(ratio=ratio, clip=clip, minibatches=minibatches, **kwargs)


class GSPOToken(GSPO):
    """GSPO with a gradient per token, for advantages that differ within a completion.

    Source: Zheng et al. 2025, arXiv:2507.18071, eqs. 13 and 14.
    """

    best_for = "GSPO's clip with rewards at the ends of steps or turns"

    def __init__(self, ratio: ImportanceRatio = lazy_instance(SequenceTokenRatio), **kwargs: Any) -> None:
        """
        Args:
            ratio: new policy against old, the sequence's value with the token's gradient.
            **kwargs: the other slots of `GSPO`.
        """
        super().__init__(ratio=ratio, **kwargs)
