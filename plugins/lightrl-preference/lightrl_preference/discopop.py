"""DiscoPOP (Lu et al. 2024, arXiv:2406.08414): an objective that was found by a language model."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from lightrl_preference.dpo import DPO
from lightrl_preference.margin import positive


class DiscoPOP(DPO):
    """Log-ratio modulated loss: DPO's for pairs in the wrong order, an exponential one for those in the right order.

    loss = (1 - m) (-log sigmoid(beta h)) + m exp(-beta h), with m = sigmoid(beta h / tau) and h = log-ratio(y+) - log-ratio(y-).
    The implicit reward is beta log-ratio(y). The loss is not convex: around h = 0 it rises with h.

    Source: Lu et al. 2024, arXiv:2406.08414, eq. 5; beta of appendix B.1, tau of appendix E.
    """

    exceptions = {
        "where the policy is the reference, it makes good completions likelier and no bad one": "the loss rises with the margin around "
        "0, as the paper says of it: at the published tau its slope there is 0.78 beta"
    }

    def __init__(self, beta: float = 0.05, tau: float = 0.05) -> None:
        """
        Args:
            beta: how strongly the policy is held to the reference; > 0.
            tau: over which difference of rewards the one loss becomes the other; in (0, 1].

        Raises:
            ValueError: an argument outside its range.
        """
        super().__init__(beta)
        positive("DiscoPOP", tau=tau)
        if tau > 1:
            raise ValueError(f"DiscoPOP needs tau <= 1, since with more the loss of pairs in the wrong order explodes, got {tau}")
        self.tau = tau

    def of_margin(self, margin: Tensor) -> Tensor:
        # m exp(-margin) in one exponent, which stays finite for pairs far in the wrong order
        exponential = (F.logsigmoid(margin / self.tau) - margin).exp()
        return -F.logsigmoid(margin) * torch.sigmoid(-margin / self.tau) + exponential
