"""GSPO, GSPO-token for advantages that differ within a completion, and LUSPO, whose loss grows with the length."""

from lightrl import DecoupledClip, GroupRelative, SequenceRatio
from lightrl_gspo.length_weighted import LengthWeightedMean
from lightrl_gspo.ratio import SequenceTokenRatio


class GSPO(GroupRelative):
    """Group sequence policy optimisation: the ratio, and with it the clip, is of whole completions.

    J = 1/G sum_i min(s_i A_i, clip(s_i, 1 - 3e-4, 1 + 4e-4) A_i), s_i = exp(1/L_i sum_t log(pi / old)); no KL, four minibatches
    per rollout.

    Source: Zheng et al. 2025, arXiv:2507.18071, eqs. 5 to 7 and section 5.1.
    """

    best_for = "mixture-of-experts policies and long completions, where single tokens' ratios are mostly noise"

    ratio = SequenceRatio()
    """New policy against old, here per completion."""
    clip = DecoupledClip(low=3e-4, high=4e-4)
    """How far one update may go; a completion's ratio moves far less than a token's."""
    minibatches = 4


class GSPOToken(GSPO):
    """GSPO with a gradient per token, for advantages that differ within a completion.

    Source: Zheng et al. 2025, arXiv:2507.18071, eqs. 13 and 14.
    """

    best_for = "GSPO's clip with rewards at the ends of steps or turns"

    ratio = SequenceTokenRatio()
    """New policy against old: the value of the completion with the gradient of the token."""


class LUSPO(GSPO):
    """Length-unbiased sequence policy optimisation: GSPO with the loss of each completion times its length.

    J = 1/G sum_i |y_i| min(s_i A_i, clip(s_i, 1 - 2e-3, 1 + 2.5e-3) A_i), so that no token of a long completion weighs less.

    Source: 2026, "Length-unbiased sequence policy optimization", arXiv:2602.05261, with the bounds of section 5.1.
    """

    best_for = "GSPO where answers grow shorter without getting better"

    clip = DecoupledClip(low=2e-3, high=2.5e-3)
    """How far one update may go; a completion's ratio moves far less than a token's."""
    aggregation = LengthWeightedMean()
    """How much a token weighs in the loss: all of them the same."""
