"""DPPO (Qi et al. 2026, arXiv:2602.04879): a divergence bounds the update where PPO has the ratio."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from lightrl import ClipScheme, GroupRelative, Surrogate, TokenMean


class DivergenceMask(ClipScheme):
    """Policy gradient without the tokens whose distribution has moved too far, and would move farther.

    J_t = M_t sg[min(r_t, cap)] A_t log pi(o_t), with log pi = log_ratio + old_logprobs. M_t = 0 where D_t > threshold and A_t > 0, r_t > 1
    or A_t < 0, r_t < 1; else 1. D_t is a divergence of two Bernoulli distributions, those of the sampled token: a lower bound of the
    divergence over the vocabulary.

    Source: Qi et al. 2026 (DPPO), arXiv:2602.04879, the binary approximations; cap as in the authors' code and verl.
    """

    token_ratio_only = True
    silent_without_advantage = True

    def __init__(self, threshold: float, cap: float = 20.0) -> None:
        """
        Args:
            threshold: largest divergence of a token that still moves away; > 0.
            cap: largest importance weight; > 0.

        Raises:
            ValueError: a number that is not above 0.
        """
        if not (0 < threshold < float("inf") and 0 < cap < float("inf")):
            raise ValueError(f"{type(self).__name__} needs threshold > 0 and cap > 0, got threshold={threshold}, cap={cap}")
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

        Raises:
            ValueError: a number that is not above 0.
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

        Raises:
            ValueError: a number that is not above 0.
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
