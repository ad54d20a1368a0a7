"""The off-policy sequence mask of DeepSeek-V3.2 (arXiv:2512.02556)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from lightrl import ClipScheme, GroupCentered, GroupRelative, Minibatch, Output, PolicyGradient, Surrogate


class OffPolicyMask(ClipScheme):
    """Another clip scheme, without the bad completions that the policy has left behind.

    J_t = M_t J'_t, with J' of the other scheme, and M_t = 0 where A_t < 0 and (1/L) sum_t (log pi_old - log pi) > threshold, L the tokens
    of the row that carry a loss; else 1. The policy of the report that sampled is the engine's; here it is that of `old_logprobs`.

    Source: DeepSeek-AI 2025 (DeepSeek-V3.2), arXiv:2512.02556, eq. 9. The report states no threshold; 0.5 is TRL's advice.
    """

    def __init__(self, clip: ClipScheme = PolicyGradient(), threshold: float = 0.5) -> None:
        """
        Args:
            clip: the scheme of the tokens that are left.
            threshold: by how many nats per token a completion may have become less likely; > 0.

        Raises:
            ValueError: threshold is not above 0.
        """
        if not 0 < threshold < float("inf"):
            raise ValueError(f"OffPolicyMask needs threshold > 0, got {threshold}")
        self.clip, self.threshold = clip, threshold
        self.token_ratio_only, self.row_constant = clip.token_ratio_only, clip.row_constant
        self.silent_without_advantage = clip.silent_without_advantage
        self.needs_extras, self.prepares = clip.needs_extras, clip.prepares
        self.extras_per_token = clip.extras_per_token

    @property
    def outputs(self) -> tuple[Output, ...]:
        return self.clip.outputs

    def prepare(self, minibatch: Minibatch) -> Mapping[str, Tensor]:
        return self.clip.prepare(minibatch)

    def surrogate(self, log_ratio: Tensor, advantages: Tensor, old_logprobs: Tensor, mask: Tensor) -> Surrogate:
        inner = self.clip.given(self.extras).surrogate(log_ratio, advantages, old_logprobs, mask)
        left = torch.where(mask, -log_ratio.detach(), 0.0).sum(1) / mask.sum(1).clamp(min=1)
        dropped = (left > self.threshold)[:, None] & (advantages < 0)
        return Surrogate(
            loss=torch.where(dropped, 0.0, inner.loss),
            clipped_low=dropped | inner.clipped_low,
            clipped_high=inner.clipped_high & ~dropped,
            shares=inner.shares,
            statistics={**inner.statistics, "off_policy_mask/rows": torch.where(mask.any(1), (dropped & mask).any(1).double(), torch.nan)},
        )


class MaskedREINFORCE(GroupRelative):
    """REINFORCE for several steps per rollout: bad completions that are no longer the policy's own carry no loss.

    The plain policy gradient with centred rewards and the off-policy sequence mask; no ratio, no KL. DeepSeek-V3.2 itself puts the mask on
    GRPO's clip: `clip: {class_path: OffPolicyMask, init_args: {clip: SymmetricClip}}`.

    Source: DeepSeek-AI 2025 (DeepSeek-V3.2), arXiv:2512.02556, section 3.1; Williams 1992.
    """

    best_for = "several steps per rollout without a ratio to tune"

    advantage = GroupCentered()
    clip = OffPolicyMask()
    minibatches = 4
