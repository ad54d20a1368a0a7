"""SimPO (Meng et al. 2024, arXiv:2405.14734): mean log-probs as rewards, and a target margin."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from lightrl import Likelihood
from lightrl_preference.margin import MarginObjective, positive


class SimPO(MarginObjective):
    """Simple preference optimisation: no reference, and a reward that does not grow with length.

    loss = -log sigmoid(beta log pi(y+ | x) / |y+| - beta log pi(y- | x) / |y-| - gamma).

    Source: Meng et al. 2024, arXiv:2405.14734, eq. 6.
    """

    def __init__(self, beta: float = 2.5, gamma: float = 1.375) -> None:
        """
        Args:
            beta: scale of the reward; > 0.
            gamma: how far the rewards of a pair should be apart; at least 0. The authors' configs give gamma / beta (0.55 for these
                defaults).

        Raises:
            ValueError: an argument outside its range.
        """
        positive("SimPO", beta=beta)
        if not 0 <= gamma < float("inf"):
            raise ValueError(f"SimPO needs gamma >= 0, got {gamma}")
        self.beta, self.gamma = beta, gamma

    def reward(self, completions: Likelihood) -> Tensor:
        return self.beta * completions.mean_logprob

    def of_margin(self, margin: Tensor) -> Tensor:
        return -F.logsigmoid(margin - self.gamma)
