"""SAPO's surrogate: a smooth gate in place of a clip."""

import torch
from torch import Tensor

from lightrl import ClipScheme, Surrogate


class SoftGate(ClipScheme):
    """A sigmoid of the ratio that fades the gradient out instead of cutting it off.

    J_t = f(r_t) A_t, f(r) = (4 / tau) sigmoid(tau (r - 1)), so that df/dlog pi = 4 s (1 - s) r with s the sigmoid: 1 at r = 1.
    tau is `positive` where A_t > 0 and `negative` elsewhere. The value is offset (f(1) = 2 / tau); the gradient is what counts.

    Source: Gao et al. 2025 (SAPO), arXiv:2511.20347.
    """

    silent_without_advantage = True

    def __init__(self, positive: float = 1.0, negative: float = 1.05) -> None:
        """
        Args:
            positive: temperature tau for tokens of positive advantage; > 0, larger fades faster.
            negative: temperature tau for the others; > 0.

        Raises:
            ValueError: a temperature that is not positive.
        """
        if positive <= 0 or negative <= 0:
            raise ValueError(f"SoftGate needs positive > 0 and negative > 0, got positive={positive}, negative={negative}")
        self.positive, self.negative = positive, negative

    def surrogate(self, log_ratio: Tensor, advantages: Tensor, old_logprobs: Tensor, mask: Tensor) -> Surrogate:
        tau = torch.full_like(log_ratio, self.negative).masked_fill(advantages > 0, self.positive)
        gate = torch.sigmoid(tau * (log_ratio.exp() - 1))
        nowhere = torch.zeros_like(gate, dtype=torch.bool)
        open_share = (4 * gate * (1 - gate)).detach()
        return Surrogate(loss=-4 / tau * gate * advantages, clipped_low=nowhere, clipped_high=nowhere, statistics={"sapo/gate": open_share})
