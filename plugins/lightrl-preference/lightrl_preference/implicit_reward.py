"""The base of objectives with a reference: the implicit reward is how much likelier a completion has become."""

from __future__ import annotations

from torch import Tensor

from lightrl import Likelihood, Objective
from lightrl_preference.margin import positive


class ImplicitReward(Objective):
    """reward(y) = beta (log pi(y | x) - log pi_ref(y | x))."""

    def __init__(self, beta: float = 0.1) -> None:
        """
        Args:
            beta: how strongly the policy is held to the reference; > 0.

        Raises:
            ValueError: beta is not above 0.
        """
        positive(type(self).__name__, beta=beta)
        self.beta = beta

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"ref_logprobs"})

    def reward(self, completions: Likelihood) -> Tensor:
        return self.beta * completions.log_ratio
