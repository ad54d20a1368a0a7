"""Masks of tokens and rows that the policy has moved away from: DPPO, and that of DeepSeek-V3.2."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated

import torch
from annotated_types import Gt
from torch import Tensor

from lightrl import ClipScheme, GroupCentered, GroupRelative, Minibatch, PolicyGradient, Surrogate, TokenMean


class DivergenceMask(ClipScheme):
    """Policy gradient without the tokens whose distribution has moved too far, and would move farther.

    J_t = M_t sg[min(r_t, cap)] A_t log pi(o_t), with log pi = log_ratio + old_logprobs. M_t = 0 where D_t > threshold and A_t > 0, r_t > 1
    or A_t < 0, r_t < 1; else 1. D_t is a divergence of two Bernoulli distributions, those of the sampled token: a lower bound of the
    divergence over the vocabulary.

    Source: Qi et al. 2026 (DPPO), arXiv:2602.04879, the binary approximations; cap as in the authors' code and verl.
    """

    token_ratio_only = True
    silent_without_advantage = True

    def __init__(self, threshold: Annotated[float, Gt(0)], cap: Annotated[float, Gt(0)] = 20.0) -> None:
        """
        Args:
            threshold: largest divergence of a token that still moves away; > 0.
            cap: largest importance weight; > 0.
        """
        self.threshold, self.cap = threshold, cap

    @abstractmethod
    def divergence(self, logprobs: Tensor, old_logprobs: Tensor) -> Tensor:
        """`[n, L]` of the sampled tokens' log-probs under the new policy and the old one, no gradient."""

    def surrogate(self, log_ratio: Tensor, advantages: Tensor, old_logprobs: Tensor, mask: Tensor) -> Surrogate:
        moved = log_ratio.detach()
        divergence = self.divergence(moved + old_logprobs, old_logprobs)
        low = (divergence > self.threshold) & (advantages < 0) & (moved < 0)
        high = (divergence > self.threshold) & (advantages > 0) & (moved > 0)
        loss = -moved.exp().clamp(max=self.cap) * advantages * (log_ratio + old_logprobs)
        return Surrogate(torch.where(low | high, 0.0, loss), low, high, statistics={"dppo/divergence": divergence})


class TotalVariationMask(DivergenceMask):
    """A mask by total variation.

    As `DivergenceMask`, with D = |pi(o_t) - pi_old(o_t)|.

    Source: Qi et al. 2026 (DPPO), arXiv:2602.04879 (Binary-TV); threshold of the authors' code and verl.
    """

    def __init__(self, threshold: float = 0.15, cap: float = 20.0) -> None:
        """
        Args:
            threshold: largest change of a probability, in either direction; > 0.
            cap: largest importance weight; > 0.
        """
        super().__init__(threshold, cap)

    def divergence(self, logprobs: Tensor, old_logprobs: Tensor) -> Tensor:
        return (logprobs.exp() - old_logprobs.exp()).abs()


class KLMask(DivergenceMask):
    """A mask by KL(old || new).

    As `DivergenceMask`, with D = q log(q / p) + (1 - q) log((1 - q) / (1 - p)), q = pi_old(o_t), p = pi(o_t).

    Source: Qi et al. 2026 (DPPO), arXiv:2602.04879 (Binary-KL); threshold of the authors' code and verl.
    """

    def __init__(self, threshold: float = 0.05, cap: float = 20.0) -> None:
        """
        Args:
            threshold: largest KL of a token, in nats; > 0.
            cap: largest importance weight; > 0.
        """
        super().__init__(threshold, cap)

    def divergence(self, logprobs: Tensor, old_logprobs: Tensor) -> Tensor:
        # 1 - exp(x) without the cancellation near probability 1; a log-prob of 0 leaves the others nothing
        others, old_others = -torch.expm1(logprobs.clamp(max=0)), -torch.expm1(old_logprobs.clamp(max=0))
        tiny = torch.finfo(logprobs.dtype).tiny
        rest = torch.xlogy(old_others, old_others.clamp(min=tiny) / others.clamp(min=tiny))
        return (old_logprobs.exp() * (old_logprobs - logprobs) + rest).clamp(min=0)


class DPPO(GroupRelative):
    """Divergence proximal policy optimisation.

    GRPO with a mask by total variation in place of the clip, every token weighing the same, and no KL; `clip: KLMask` is the other
    variant. The old policy is the one that sampled, as the paper advises.

    Source: Qi et al. 2026, arXiv:2602.04879.
    """

    best_for = "engines that do not sample exactly from the policy, and rare tokens that a ratio would clip at once"

    clip = TotalVariationMask()
    aggregation = TokenMean()
    old_logprobs = "rollout"


class OffPolicyMask(ClipScheme):
    """Another clip scheme, without the bad completions that the policy has left behind.

    J_t = M_t J'_t, with J' of the other scheme, and M_t = 0 where A_t < 0 and (1/L) sum_t (log pi_old - log pi) > threshold, L the tokens
    of the row that carry a loss; else 1. The policy of the report that sampled is the engine's; here it is that of `old_logprobs`.

    Source: DeepSeek-AI 2025 (DeepSeek-V3.2), arXiv:2512.02556, eq. 9. The report states no threshold; 0.5 is TRL's advice.
    """

    def __init__(self, clip: ClipScheme = PolicyGradient(), threshold: Annotated[float, Gt(0)] = 0.5) -> None:
        """
        Args:
            clip: the scheme of the tokens that are left.
            threshold: by how many nats per token a completion may have become less likely; > 0.
        """
        self.clip, self.threshold = clip, threshold
        self.token_ratio_only, self.row_constant = clip.token_ratio_only, clip.row_constant
        self.silent_without_advantage = clip.silent_without_advantage

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
