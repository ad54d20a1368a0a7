"""Objectives on pairs that say of each completion by itself where it should go."""

from typing import Annotated

import torch
import torch.nn.functional as F
from annotated_types import Gt
from torch import Tensor

from lightrl import Likelihood, PairObjective, WithStatistics
from lightrl_preference.dpo import ImplicitReward


class APOZero(ImplicitReward, PairObjective):
    """Anchored preference optimisation: the better completion becomes likelier than under the reference, the worse one less likely.

    loss = (1 - sigmoid(beta log-ratio(y+))) + sigmoid(beta log-ratio(y-)), with log-ratio(y) = log pi(y | x) - log pi_ref(y | x).
    For pairs whose better completion is better than what the policy writes. The implicit reward is beta log-ratio(y).

    Source: D'Oosterlinck et al. 2024, arXiv:2408.06266, eq. 7; beta of section 5.2.
    """

    def loss(self, chosen: Likelihood, rejected: Likelihood) -> Tensor:
        return torch.sigmoid(-self.reward(chosen)) + torch.sigmoid(self.reward(rejected))


class APODown(APOZero):
    """Anchored preference optimisation that makes both completions less likely, the worse one faster.

    loss = sigmoid(beta log-ratio(y+)) + (1 - sigmoid(beta h)), with h = log-ratio(y+) - log-ratio(y-). For pairs whose better
    completion is worse than what the policy writes.

    Source: D'Oosterlinck et al. 2024, arXiv:2408.06266, eq. 8; beta of section 5.2.
    """

    exceptions = {
        "where the policy is the reference, it makes good completions likelier and no bad one": "at the reference its two terms leave "
        "the better completion alone, and then they lower it: only the distance between the two is raised"
    }

    def loss(self, chosen: Likelihood, rejected: Likelihood) -> Tensor:
        return torch.sigmoid(self.reward(chosen)) + torch.sigmoid(self.reward(rejected) - self.reward(chosen))


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
        """
        super().__init__(beta)

    def loss(self, chosen: Likelihood, rejected: Likelihood) -> Tensor:
        better, worse = self.reward(chosen), self.reward(rejected)
        return -F.logsigmoid(better) - (F.logsigmoid(-better) + F.logsigmoid(-worse)) / 2


class ORPO(PairObjective):
    """Odds ratio preference optimisation: supervised fine-tuning that also pushes the worse completion away; no reference.

    loss = -log P(y+) + lambda (-log sigmoid(log odds(y+) - log odds(y-))), with log P(y) = log pi(y | x) / |y| and
    odds = P / (1 - P). The implicit reward is lambda log odds(y).

    Source: Hong et al. 2024, arXiv:2403.07691, eqs. 6 and 7.
    """

    def __init__(self, weight: Annotated[float, Gt(0)] = 0.1) -> None:
        """
        Args:
            weight: lambda, of the odds ratio beside the imitation; > 0.
        """
        self.weight = weight

    def reward(self, completions: Likelihood) -> Tensor:
        return self.weight * log_odds(completions.mean_logprob)

    def loss(self, chosen: Likelihood, rejected: Likelihood) -> Tensor:
        imitation = -chosen.mean_logprob
        odds_ratio = -F.logsigmoid(log_odds(chosen.mean_logprob) - log_odds(rejected.mean_logprob))
        statistics = {"loss/imitation": imitation.detach(), "loss/odds_ratio": odds_ratio.detach()}
        return WithStatistics(imitation + self.weight * odds_ratio, statistics)  # type: ignore[return-value]


def log_odds(logprob: Tensor) -> Tensor:
    """log(p / (1 - p)) of p = exp(logprob), exact near p = 0 and near p = 1, which it is held off by an eps, without a gradient."""
    below = logprob.clamp(max=-torch.finfo(logprob.dtype).eps)
    near_one = below > -0.6931
    # each branch is given only what it is exact for: an infinity in the other would make its gradient NaN
    of_large = (-torch.expm1(torch.where(near_one, below, -1.0))).log()
    of_small = torch.log1p(-torch.where(near_one, -1.0, below).exp())
    return below - torch.where(near_one, of_large, of_small)


class SPPO(ImplicitReward, PairObjective):
    """Self-play preference optimisation with hard preferences: log-ratios of 1 / (2 beta) and -1 / (2 beta), no less and no more.

    loss = (log-ratio(y+) - 1 / (2 beta))^2 + (log-ratio(y-) + 1 / (2 beta))^2, with log-ratio(y) = log pi(y | x) -
    log pi_ref(y | x). The implicit reward is beta log-ratio(y). It is one round of self-play: the completions should be the
    reference's own, and the next round starts from the policy that came out.

    Source: Wu et al. 2024, arXiv:2405.00675, eq. 4.7, where 1 / beta is eta, 1000, and P is 1 for the better completion.
    """

    def __init__(self, beta: float = 0.001) -> None:
        """
        Args:
            beta: 1 / eta: a larger one asks for smaller log-ratios; > 0.
        """
        super().__init__(beta)

    def loss(self, chosen: Likelihood, rejected: Likelihood) -> Tensor:
        target = 1 / (2 * self.beta)
        return (chosen.log_ratio - target).square() + (rejected.log_ratio + target).square()
