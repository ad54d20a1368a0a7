"""The hinge loss of SLiC, with and without a reference."""

from __future__ import annotations

from torch import Tensor

from lightrl import Likelihood
from lightrl_preference.implicit_reward import ImplicitReward
from lightrl_preference.margin import MarginObjective, positive


class Hinge(ImplicitReward, MarginObjective):
    """Sequence likelihood calibration against a reference: pairs that are far enough apart teach nothing.

    loss = max(0, margin - beta h), with h = log-ratio(y+) - log-ratio(y-). The implicit reward is beta log-ratio(y).

    Source: Liu et al. 2023 (RSO), arXiv:2309.06657, eq. 9, where gamma is beta and the margin is 1.
    """

    def __init__(self, beta: float = 0.1, margin: float = 1.0) -> None:
        """
        Args:
            beta: scale of the reward; > 0.
            margin: how far the rewards of a pair should be apart; > 0.

        Raises:
            ValueError: an argument that is not above 0.
        """
        super().__init__(beta)
        positive(type(self).__name__, margin=margin)
        self.margin = margin

    def of_margin(self, margin: Tensor) -> Tensor:
        return (self.margin - margin).clamp(min=0)


class ReferenceFreeHinge(Hinge):
    """SLiC-HF's rank calibration: the hinge on the log-probs themselves.

    loss = max(0, margin - beta (log pi(y+ | x) - log pi(y- | x))). The paper adds a likelihood term, which is `ChosenLikelihood`
    beside this one in a `MixedObjective`.

    Source: Zhao et al. 2023 (SLiC-HF), arXiv:2305.10425, eq. 1, where beta is 1 and the margin is delta.
    """

    def __init__(self, beta: float = 1.0, margin: float = 1.0) -> None:
        """
        Args:
            beta: scale of the log-probs; > 0.
            margin: delta, how far they should be apart; > 0.

        Raises:
            ValueError: an argument that is not above 0.
        """
        super().__init__(beta, margin)

    @property
    def needs(self) -> frozenset[str]:
        return frozenset()

    def reward(self, completions: Likelihood) -> Tensor:
        return self.beta * completions.logprob
