"""ORPO (Hong et al. 2024, arXiv:2403.07691): imitation of the better completion and its odds against the worse one."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from lightrl import Likelihood, PairObjective, WithStatistics
from lightrl_preference.margin import positive


class ORPO(PairObjective):
    """Odds ratio preference optimisation: supervised fine-tuning that also pushes the worse completion away; no reference.

    loss = -log P(y+) + lambda (-log sigmoid(log odds(y+) - log odds(y-))), with log P(y) = log pi(y | x) / |y| and
    odds = P / (1 - P). The implicit reward is lambda log odds(y).

    Source: Hong et al. 2024, arXiv:2403.07691, eqs. 6 and 7.
    """

    def __init__(self, weight: float = 0.1) -> None:
        """
        Args:
            weight: lambda, of the odds ratio beside the imitation; > 0.

        Raises:
            ValueError: a weight that is not above 0.
        """
        positive("ORPO", weight=weight)
        self.weight = weight

    def reward(self, completions: Likelihood) -> Tensor:
        return self.weight * log_odds(completions.mean_logprob)

    def loss(self, chosen: Likelihood, rejected: Likelihood) -> Tensor:
        imitation = -chosen.mean_logprob
        odds_ratio = -F.logsigmoid(log_odds(chosen.mean_logprob) - log_odds(rejected.mean_logprob))
        statistics = {"loss/imitation": imitation.detach(), "loss/odds_ratio": odds_ratio.detach()}
        return WithStatistics(imitation + self.weight * odds_ratio, statistics)  # type: ignore[return-value]


def log_odds(logprob: Tensor) -> Tensor:
    """log(p / (1 - p)) of p = exp(logprob), exact near p = 0 and near p = 1.

    Args:
        logprob: at most 0; what is closer to 0 than a number of its type can tell from it is held there, without a gradient.
    """
    below = logprob.clamp(max=-torch.finfo(logprob.dtype).eps)
    near_one = below > -0.6931
    # each branch is given only what it is exact for: an infinity in the other would make its gradient NaN
    of_large = (-torch.expm1(torch.where(near_one, below, -1.0))).log()
    of_small = torch.log1p(-torch.where(near_one, -1.0, below).exp())
    return below - torch.where(near_one, of_large, of_small)
