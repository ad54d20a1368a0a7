"""The ratio of GSPO-token."""

from torch import Tensor

from lightrl import SequenceRatio


class SequenceTokenRatio(SequenceRatio):
    """The sequence's ratio as a value, the token's as a gradient.

    s_{i,t} = sg[s_i] pi(o_t) / sg[pi(o_t)], s_i the geometric mean of the row's token ratios. With an advantage that is constant
    over the row, value, clip and gradient are those of `SequenceRatio`; advantages may differ from token to token.

    Source: Zheng et al. 2025 (GSPO), arXiv:2507.18071, eqs. 13 and 14.
    """

    def log_ratio(self, logprobs: Tensor, old_logprobs: Tensor, mask: Tensor) -> Tensor:
        sequence: Tensor = super().log_ratio(logprobs, old_logprobs, mask)
        return sequence.detach() + logprobs - logprobs.detach()
