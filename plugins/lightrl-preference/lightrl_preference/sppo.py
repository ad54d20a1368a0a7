"""SPPO (Wu et al. 2024, arXiv:2405.00675): self-play, with the log-ratio of each completion as a regression target."""

from __future__ import annotations

from torch import Tensor

from lightrl import Likelihood, PairObjective
from lightrl_preference.implicit_reward import ImplicitReward


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

        Raises:
            ValueError: beta is not above 0.
        """
        super().__init__(beta)

    def loss(self, chosen: Likelihood, rejected: Likelihood) -> Tensor:
        target = 1 / (2 * self.beta)
        return (chosen.log_ratio - target).square() + (rejected.log_ratio + target).square()
