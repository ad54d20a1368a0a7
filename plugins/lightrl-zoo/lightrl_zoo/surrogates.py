"""Surrogates in place of a clip: those of CISPO, SAPO, GMPO and VESPO."""

from typing import Annotated

import torch
from annotated_types import Ge, Gt, Le, Lt
from torch import Tensor

from lightrl import ClipScheme, Surrogate


class CappedImportance(ClipScheme):
    """Policy gradient under a capped importance weight.

    J_t = sg[clip(r_t, 1 - low, 1 + high)] A_t log pi(o_t), with log pi = log_ratio + old_logprobs. No token loses its gradient
    by the cap, unlike under PPO's clip; with `mask_low` or `mask_high` those that PPO would clip lose theirs.

    Source: MiniMax 2025 (CISPO), arXiv:2506.13585, eq. 4-5; the mask eq. 6-7.
    """

    token_ratio_only = True
    silent_without_advantage = True

    def __init__(
        self,
        high: Annotated[float, Gt(0)] = 0.2,
        low: Annotated[float, Ge(0), Le(1)] | None = None,
        mask_high: Annotated[float, Gt(0)] | None = None,
        mask_low: Annotated[float, Ge(0), Lt(1)] | None = None,
    ) -> None:
        """
        Args:
            high: the weight is at most 1 + high; > 0. The paper tunes it and does not state it; 0.2 is that of verl's example.
            low: the weight is at least 1 - low; in [0, 1]. null, as in the paper: no lower bound.
            mask_high: tokens with a ratio above 1 + mask_high and a positive advantage have no gradient; > 0. null: they keep it.
            mask_low: tokens with a ratio below 1 - mask_low and a negative advantage have no gradient; in [0, 1). null: they keep it.
        """
        self.high, self.low, self.mask_high, self.mask_low = high, low, mask_high, mask_low

    def surrogate(self, log_ratio: Tensor, advantages: Tensor, old_logprobs: Tensor, mask: Tensor) -> Surrogate:
        ratio = log_ratio.detach().exp()
        weight = ratio.clamp(0.0 if self.low is None else 1 - self.low, 1 + self.high)
        nowhere = torch.zeros_like(ratio, dtype=torch.bool)
        dropped_low = nowhere if self.mask_low is None else (ratio < 1 - self.mask_low) & (advantages < 0)
        dropped_high = nowhere if self.mask_high is None else (ratio > 1 + self.mask_high) & (advantages > 0)
        loss = -weight * advantages * (log_ratio + old_logprobs)
        return Surrogate(
            loss=torch.where(dropped_low | dropped_high, 0.0, loss),
            clipped_low=dropped_low,
            clipped_high=dropped_high,
            shares={"cispo/capped": weight != ratio},
            statistics={"cispo/weight": weight},
        )


class SoftGate(ClipScheme):
    """A sigmoid of the ratio that fades the gradient out instead of cutting it off.

    J_t = f(r_t) A_t, f(r) = (4 / tau) sigmoid(tau (r - 1)), so that df/dlog pi = 4 s (1 - s) r with s the sigmoid: 1 at r = 1.
    tau is `positive` where A_t > 0 and `negative` elsewhere. The value is offset (f(1) = 2 / tau); the gradient is what counts.

    Source: Gao et al. 2025 (SAPO), arXiv:2511.20347.
    """

    silent_without_advantage = True

    def __init__(self, positive: Annotated[float, Gt(0)] = 1.0, negative: Annotated[float, Gt(0)] = 1.05) -> None:
        """
        Args:
            positive: temperature tau for tokens of positive advantage; > 0, larger fades faster.
            negative: temperature tau for the others; > 0.
        """
        self.positive, self.negative = positive, negative

    def surrogate(self, log_ratio: Tensor, advantages: Tensor, old_logprobs: Tensor, mask: Tensor) -> Surrogate:
        tau = torch.full_like(log_ratio, self.negative).masked_fill(advantages > 0, self.positive)
        gate = torch.sigmoid(tau * (log_ratio.exp() - 1))
        nowhere = torch.zeros_like(gate, dtype=torch.bool)
        open_share = (4 * gate * (1 - gate)).detach()
        return Surrogate(loss=-4 / tau * gate * advantages, clipped_low=nowhere, clipped_high=nowhere, statistics={"sapo/gate": open_share})


class GeometricMeanClip(ClipScheme):
    """The geometric mean of a row's clipped token ratios.

    J_i = A_i exp((1/L) sum_t c_t), c_t = min(l_t, high) where A_i > 0 and max(l_t, -low) where A_i < 0, with l_t the
    log-ratio and L the tokens of the row that carry a loss. Every token of the row holds J_i, with A_t in place of A_i where
    advantages differ within a row.

    Source: Zhao et al. 2025 (GMPO), arXiv:2507.20673, which has one bound for both.
    """

    row_constant = True
    token_ratio_only = True
    silent_without_advantage = True

    def __init__(self, low: Annotated[float, Gt(0)] = 0.4, high: Annotated[float, Gt(0)] = 0.4) -> None:
        """
        Args:
            low: how far a token's log-ratio may fall below 0 while the advantage is negative, in nats; > 0.
            high: how far it may rise above 0 while the advantage is positive, in nats; > 0.
        """
        self.low, self.high = low, high

    def surrogate(self, log_ratio: Tensor, advantages: Tensor, old_logprobs: Tensor, mask: Tensor) -> Surrogate:
        high = mask & (advantages > 0) & (log_ratio > self.high)
        low = mask & (advantages < 0) & (log_ratio < -self.low)
        clipped = log_ratio.masked_fill(high, self.high).masked_fill(low, -self.low).masked_fill(~mask, 0.0)
        ratio = (clipped.sum(1, keepdim=True) / mask.sum(1, keepdim=True).clamp(min=1)).exp()
        return Surrogate(loss=-ratio * advantages.masked_fill(~mask, 0.0), clipped_low=low, clipped_high=high)


class GammaWeight(ClipScheme):
    """Policy gradient under a weight of the completion's importance ratio that falls off smoothly on both sides.

    J_t = sg[phi(W_i)] A_t log pi(o_t), phi(W) = W^k exp(lam (1 - W)), so that phi(1) = 1, with W_i = exp(sum_t log_ratio_t) over the
    tokens of row i that carry a loss, not divided by its length, and log pi = log_ratio + old_logprobs. phi is largest at
    W = k / lam. k and lam are those of the sign of A_t.

    Source: Shen et al. 2026 (VESPO), arXiv:2602.10693; defaults of the authors' code and of TRL's `vespo_k_pos` and others.
    """

    token_ratio_only = True
    silent_without_advantage = True

    def __init__(
        self,
        k_positive: Annotated[float, Gt(0)] = 2.0,
        lam_positive: Annotated[float, Gt(0)] = 3.0,
        k_negative: Annotated[float, Gt(0)] = 3.0,
        lam_negative: Annotated[float, Gt(0)] = 2.0,
    ) -> None:
        """
        Args:
            k_positive: exponent k where A_t > 0; > 0, larger weighs rows less that have become unlikely.
            lam_positive: decay lam where A_t > 0; > 0, larger weighs rows less that have become likely.
            k_negative: exponent k where A_t < 0; > 0.
            lam_negative: decay lam where A_t < 0; > 0.
        """
        self.k_positive, self.lam_positive, self.k_negative, self.lam_negative = k_positive, lam_positive, k_negative, lam_negative

    def surrogate(self, log_ratio: Tensor, advantages: Tensor, old_logprobs: Tensor, mask: Tensor) -> Surrogate:
        log_weight = log_ratio.detach().masked_fill(~mask, 0.0).sum(1, keepdim=True)
        good = advantages > 0
        k = torch.full_like(log_ratio, self.k_negative).masked_fill(good, self.k_positive)
        lam = torch.full_like(log_ratio, self.lam_negative).masked_fill(good, self.lam_positive)
        # exp(-inf) is 0: a row whose ratio overflows weighs nothing
        phi = (k * log_weight + lam * (1 - log_weight.exp())).exp()
        nowhere = torch.zeros_like(mask)
        loss = -phi * advantages * (log_ratio + old_logprobs)
        return Surrogate(loss=loss, clipped_low=nowhere, clipped_high=nowhere, statistics={"vespo/phi": phi})
