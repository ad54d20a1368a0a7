"""NCA (Chen et al. 2024, arXiv:2402.05369): a classifier of each completion, which keeps the better one from becoming unlikely."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from lightrl import Likelihood, PairObjective
from lightrl_preference.implicit_reward import ImplicitReward


class NCA(ImplicitReward, PairObjective):
    """Noise contrastive alignment on pairs: absolute log-ratios in place of their difference.

    loss = -log sigmoid(r+) - 1/2 (log sigmoid(-r+) + log sigmoid(-r-)), with r = beta (log pi(y | x) - log pi_ref(y | x)), the
    implicit reward.

    Source: Chen et al. 2024, arXiv:2402.05369, section 4.1; beta of appendix C, where it is called alpha.
    """

    def __init__(self, beta: float = 0.01) -> None:
        """
        Args:
            beta: how strongly the policy is held to the reference; > 0.

        Raises:
            ValueError: beta is not above 0.
        """
        super().__init__(beta)

    def loss(self, chosen: Likelihood, rejected: Likelihood) -> Tensor:
        better, worse = self.reward(chosen), self.reward(rejected)
        return -F.logsigmoid(better) - (F.logsigmoid(-better) + F.logsigmoid(-worse)) / 2
