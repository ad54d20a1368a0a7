"""APO (D'Oosterlinck et al. 2024, arXiv:2408.06266): objectives that say where each completion of a pair should go."""

from __future__ import annotations

import torch
from torch import Tensor

from lightrl import Likelihood, PairObjective
from lightrl_preference.implicit_reward import ImplicitReward


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
