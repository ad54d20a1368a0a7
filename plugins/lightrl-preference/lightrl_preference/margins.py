"""Objectives on pairs with another function of the margin: hinges, IPO and SimPO."""

from typing import Annotated, Literal

import torch.nn.functional as F
from annotated_types import Ge, Gt
from torch import Tensor

from lightrl import Likelihood
from lightrl_preference.dpo import ImplicitReward, MarginObjective


class Hinge(ImplicitReward, MarginObjective):
    """Sequence likelihood calibration against a reference: pairs that are far enough apart teach nothing.

    loss = max(0, margin - beta h), with h = log-ratio(y+) - log-ratio(y-). The implicit reward is beta log-ratio(y).

    Source: Liu et al. 2023 (RSO), arXiv:2309.06657, eq. 9, where gamma is beta and the margin is 1.
    """

    def __init__(self, beta: Annotated[float, Gt(0)] = 0.1, margin: Annotated[float, Gt(0)] = 1.0) -> None:
        """
        Args:
            beta: scale of the reward; > 0.
            margin: how far the rewards of a pair should be apart; > 0.
        """
        super().__init__(beta)
        self.margin = margin

    def of_margin(self, margin: Tensor) -> Tensor:
        return (self.margin - margin).clamp(min=0)


class ReferenceFreeHinge(Hinge):
    """SLiC-HF's rank calibration: the hinge on the log-probs themselves.

    loss = max(0, margin - beta (log pi(y+ | x) - log pi(y- | x))). The paper adds a likelihood term, which is `ChosenLikelihood`
    beside this one in a `MixedObjective`.

    Source: Zhao et al. 2023 (SLiC-HF), arXiv:2305.10425, eq. 1, where beta is 1 and the margin is delta.
    """

    needs = frozenset[str]()

    def __init__(self, beta: float = 1.0, margin: float = 1.0) -> None:
        """
        Args:
            beta: scale of the log-probs; > 0.
            margin: delta, how far they should be apart; > 0.
        """
        super().__init__(beta, margin)

    def reward(self, completions: Likelihood) -> Tensor:
        return self.beta * completions.logprob


class IPO(ImplicitReward, MarginObjective):
    """Identity preference optimisation: the log-ratios of a pair should differ by 1 / (2 beta), no less and no more.

    loss = (h - 1 / (2 beta))^2, with h = log-ratio(y+) - log-ratio(y-), each log-ratio divided by the completion's tokens. The
    implicit reward is beta log-ratio(y), divided alike.

    The paper's equation has no lengths, since its completions are single actions; on text the authors divide, or long completions
    would be asked for less per token than short ones. `log_ratio: sum` is the equation taken literally. With the mean,
    1 / (2 beta) is a difference per token, and useful values of beta are larger.

    Source: Azar et al. 2023, arXiv:2310.12036, eq. 17, where beta is tau.
    """

    def __init__(self, beta: float = 0.1, log_ratio: Literal["mean", "sum"] = "mean") -> None:
        """
        Args:
            beta: tau in the paper: a larger one asks for a smaller difference; > 0.
            log_ratio: of a completion: the mean over its tokens, or their sum.

        Raises:
            ValueError: an argument outside its range.
        """
        super().__init__(beta)
        if log_ratio not in ("mean", "sum"):
            raise ValueError(f"IPO.log_ratio is mean or sum, got {log_ratio!r}")
        self.log_ratio = log_ratio

    def reward(self, completions: Likelihood) -> Tensor:
        ratio = completions.log_ratio
        return self.beta * (ratio if self.log_ratio == "sum" else ratio / completions.tokens)

    def of_margin(self, margin: Tensor) -> Tensor:
        return (margin / self.beta - 1 / (2 * self.beta)).square()


class SimPO(MarginObjective):
    """Simple preference optimisation: no reference, and a reward that does not grow with length.

    loss = -log sigmoid(beta log pi(y+ | x) / |y+| - beta log pi(y- | x) / |y-| - gamma).

    Source: Meng et al. 2024, arXiv:2405.14734, eq. 6.
    """

    def __init__(self, beta: Annotated[float, Gt(0)] = 2.5, gamma: Annotated[float, Ge(0)] = 1.375) -> None:
        """
        Args:
            beta: scale of the reward; > 0.
            gamma: how far the rewards of a pair should be apart; at least 0. The authors' configs give gamma / beta (0.55 for these
                defaults).
        """
        self.beta, self.gamma = beta, gamma

    def reward(self, completions: Likelihood) -> Tensor:
        return self.beta * completions.mean_logprob

    def of_margin(self, margin: Tensor) -> Tensor:
        return -F.logsigmoid(margin - self.gamma)
