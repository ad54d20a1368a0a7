"""Importance ratios: the new policy against the old one, and at which level."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor

from lightrl.ops.moments import row_mean
from lightrl.parts.step_part import StepPart


class ImportanceRatio(StepPart):
    """Turns log-probs into the log-ratio that a clip scheme bounds."""

    row_constant: bool = False
    """All tokens of a row share one ratio: wants an aggregation that divides by the row's own length."""

    @abstractmethod
    def log_ratio(self, logprobs: Tensor, old_logprobs: Tensor, mask: Tensor) -> Tensor:
        """`[n, L]` log pi_new - log pi_old; carries the gradient of `logprobs`.

        Args:
            logprobs: `[n, L]` under the current policy.
            old_logprobs: `[n, L]` under the policy before this rollout's first step, no gradient.
            mask: `[n, L]` bool, tokens that carry a loss.
        """


class TokenRatio(ImportanceRatio):
    """One ratio per token.

    log r_t = log pi(o_t) - log pi_old(o_t).

    Source: Schulman et al. 2017 (PPO), arXiv:1707.06347, section 3, applied to tokens.
    """

    def log_ratio(self, logprobs: Tensor, old_logprobs: Tensor, mask: Tensor) -> Tensor:
        return logprobs - old_logprobs


class SequenceRatio(ImportanceRatio):
    """One ratio per row, the geometric mean of its token ratios.

    log s = (1/L) sum_t (log pi(o_t) - log pi_old(o_t)), L counting tokens that carry a loss; 0 for a row without any.

    Source: Zheng et al. 2025 (GSPO), arXiv:2507.18071, eq. 7.
    """

    row_constant = True

    def log_ratio(self, logprobs: Tensor, old_logprobs: Tensor, mask: Tensor) -> Tensor:
        return row_mean(logprobs - old_logprobs, mask)[:, None].expand_as(logprobs)
