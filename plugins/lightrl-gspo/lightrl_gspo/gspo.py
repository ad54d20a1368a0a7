"""GSPO, GSPO-token for advantages that differ within a completion, and LUSPO, whose loss grows with the length."""

from torch import Tensor

from lightrl import DecoupledClip, GroupRelative, SequenceRatio, SequenceSum


class SequenceTokenRatio(SequenceRatio):
    """The sequence's ratio as a value, the token's as a gradient.

    s_{i,t} = sg[s_i] pi(o_t) / sg[pi(o_t)], s_i the geometric mean of the row's token ratios. With an advantage that is constant
    over the row, value, clip and gradient are those of `SequenceRatio`; advantages may differ from token to token.

    Source: Zheng et al. 2025 (GSPO), arXiv:2507.18071, eqs. 13 and 14.
    """

    def log_ratio(self, logprobs: Tensor, old_logprobs: Tensor, mask: Tensor) -> Tensor:
        sequence: Tensor = super().log_ratio(logprobs, old_logprobs, mask)
        return sequence.detach() + logprobs - logprobs.detach()


class LengthWeightedMean(SequenceSum):
    """The mean over rows of a row's value times its length, for ratios that give a row one value.

    w = m / S: the value of a row is on each of its L tokens, so that it is counted L times.

    Source: 2026 (LUSPO), "Length-unbiased sequence policy optimization", arXiv:2602.05261.
    """

    divides_by_row_length = True
    exceptions = {
        "divides_by_row_length is declared if and only if long rows weigh as much as short ones": "it is made for ratios that give a row "
        "one value, and counts that once per token on purpose"
    }


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
