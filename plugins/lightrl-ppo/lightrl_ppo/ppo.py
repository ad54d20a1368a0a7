"""PPO (Schulman et al. 2017, arXiv:1707.06347), clipped and with an adaptive penalty, and the dual clip."""

from typing import Annotated

import torch
from annotated_types import Ge, Gt
from torch import Tensor

from lightrl import ActorCritic, DecoupledClip, KLController, KLPenalty, NoClip, Surrogate


class TargetKL(KLController):
    """Doubles the coefficient when the update went too far, halves it when it hardly moved.

    d < target / tolerance: factor = 1 / step; d > target tolerance: factor = step; d = mean over tokens of KL(old || new) in nats.

    Source: Schulman et al. 2017 (PPO), arXiv:1707.06347, section 4.
    """

    unit = "token"

    def __init__(
        self, target: Annotated[float, Gt(0)] = 0.01, tolerance: Annotated[float, Ge(1)] = 1.5, step: Annotated[float, Gt(1)] = 2.0
    ) -> None:
        """
        Args:
            target: nats per token and rollout; > 0. The paper tried 0.003, 0.01 and 0.03.
            tolerance: how many times the target, up or down, is still well; at least 1.
            step: the coefficient is multiplied or divided by this; > 1.
        """
        self.target, self.tolerance, self.step = target, tolerance, step

    def factor(self, kl: float, rows: int) -> float:
        if kl < self.target / self.tolerance:
            return 1 / self.step
        return self.step if kl > self.target * self.tolerance else 1.0


class PPO(ActorCritic):
    """Proximal policy optimisation of a language model.

    Advantages by GAE (gamma 1, lambda 0.95, whitened), the clipped surrogate (eq. 7), a clipped value loss, the mean over all
    tokens, several passes over each rollout, and a k1 penalty per token against the reference in the reward.

    Source: Schulman et al. 2017, arXiv:1707.06347; for language models Ziegler et al. 2019, arXiv:1909.08593; defaults of TRL.
    """

    best_for = "dense or learnt rewards, where a critic can tell the tokens apart; twice the memory of the group algorithms"

    kl = KLPenalty(estimator="k1", reward_coefficient=0.05)
    epochs = 4


class PPOPenalty(ActorCritic):
    """PPO with an adaptive KL penalty in place of the clip.

    J_t = r_t A_t - beta KL(old || pi), beta halved or doubled after each rollout as the KL per token asks.

    Source: Schulman et al. 2017, arXiv:1707.06347, section 4, eq. 8.
    """

    best_for = "comparisons with PPO's paper, which found the clip to do better"

    clip = NoClip()
    """How far one update may go; here the penalty holds the policy."""
    kl = KLPenalty(estimator="k3", loss_coefficient=1.0, against="old", controller=TargetKL())
    """The penalty, against the policy that sampled."""
    epochs = 4


class DualClip(DecoupledClip):
    """PPO's clip with a floor for what a bad token can cost.

    J_t = min(r_t A_t, clip(r_t, 1 - low, 1 + high) A_t) where A_t >= 0, and max of that and cap A_t where A_t < 0: above
    r_t = cap a bad token has no gradient, where plain PPO's grows without bound.

    Source: Ye et al. 2020, arXiv:1912.09729, eq. 5 (cap 3).
    """

    def __init__(self, low: float = 0.2, high: float = 0.2, cap: Annotated[float, Gt(1)] = 3.0) -> None:
        """
        Args:
            low: how far the ratio may fall below 1 while the advantage is negative; in [0, 1).
            high: how far it may rise above 1 while the advantage is positive; > 0.
            cap: the ratio above which a negative advantage has no gradient; above 1.
        """
        super().__init__(low=low, high=high)
        self.cap = cap

    def surrogate(self, log_ratio: Tensor, advantages: Tensor, old_logprobs: Tensor, mask: Tensor) -> Surrogate:
        plain = super().surrogate(log_ratio, advantages, old_logprobs, mask)
        floored = (log_ratio.exp() > self.cap) & (advantages < 0)
        return Surrogate(
            loss=torch.where(floored, -self.cap * advantages, plain.loss),
            clipped_low=plain.clipped_low,
            clipped_high=plain.clipped_high | floored,
            shares={"clip_ratio/dual": floored},
        )
