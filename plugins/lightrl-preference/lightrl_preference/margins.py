"""Objectives on pairs with another function of the margin: hinges, IPO, SimPO and AlphaPO."""

from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from annotated_types import Ge, Gt, Lt
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
        self.log_ratio = log_ratio

    def reward(self, completions: Likelihood) -> Tensor:
        ratio = completions.log_ratio
        return self.beta * (ratio if self.log_ratio == "sum" else ratio / completions.tokens)

    def of_margin(self, margin: Tensor) -> Tensor:
        return (margin / self.beta - 1 / (2 * self.beta)).square()


class ReferenceFreeIPO(IPO):
    """IPO on the log-probs themselves, as with a uniform reference, so that none is held in memory.

    loss = (log pi(y+ | x) - log pi(y- | x) - 1 / (2 beta))^2, each log-prob divided by the completion's tokens, or not.

    Source: Azar et al. 2023, arXiv:2310.12036, eq. 17, where pi_ref is uniform; TRL's `CPOTrainer` has it as `loss_type: ipo`.
    """

    needs = frozenset[str]()

    def reward(self, completions: Likelihood) -> Tensor:
        return self.beta * (completions.logprob if self.log_ratio == "sum" else completions.mean_logprob)


class SimPO(MarginObjective):
    """Simple preference optimisation: no reference, and a reward that does not grow with length.

    loss = -(1 - s) log sigmoid(m - gamma) - s log sigmoid(gamma - m), with m = beta log pi(y+ | x) / |y+| - beta log pi(y- | x) / |y-| and
    s = label_smoothing.

    Source: Meng et al. 2024, arXiv:2405.14734, eq. 6; smoothing as in the authors' code.
    """

    def __init__(
        self,
        beta: Annotated[float, Gt(0)] = 2.5,
        gamma: Annotated[float, Ge(0)] = 1.375,
        label_smoothing: Annotated[float, Ge(0), Lt(0.5)] = 0.0,
    ) -> None:
        """
        Args:
            beta: scale of the reward; > 0.
            gamma: how far the rewards of a pair should be apart; at least 0. The authors' configs give gamma / beta (0.55 for these
                defaults).
            label_smoothing: the share of pairs that are taken to be the wrong way round; at least 0, below 0.5.
        """
        self.beta, self.gamma, self.label_smoothing = beta, gamma, label_smoothing

    def reward(self, completions: Likelihood) -> Tensor:
        return self.beta * completions.mean_logprob

    def of_margin(self, margin: Tensor) -> Tensor:
        logit, flipped = margin - self.gamma, self.label_smoothing
        return -(1 - flipped) * F.logsigmoid(logit) - flipped * F.logsigmoid(-logit)


class AlphaPO(SimPO):
    """SimPO with a reward of another shape, so that the better completion loses less of its likelihood.

    reward(y) = beta (1 - p(y)^-alpha) / alpha, with p(y) = pi(y | x)^(1 / |y|); the rest is SimPO, which is alpha to 0.

    Source: Gupta et al. 2025, arXiv:2501.03884; TRL's `CPOConfig.alpha`.
    """

    def __init__(self, beta: float = 2.5, gamma: float = 1.375, label_smoothing: float = 0.0, alpha: float = 0.25) -> None:
        """
        Args:
            beta: scale of the reward; > 0.
            gamma: how far the rewards of a pair should be apart; at least 0.
            label_smoothing: the share of pairs that are taken to be the wrong way round; at least 0, below 0.5.
            alpha: above 0 the reward falls faster as a completion becomes unlikely, below 0 more slowly; 0 is SimPO.
        """
        super().__init__(beta, gamma, label_smoothing)
        self.alpha = alpha

    def reward(self, completions: Likelihood) -> Tensor:
        if self.alpha == 0:
            return super().reward(completions)
        # 1 - e^-x without its rounding near x = 0
        return -self.beta * torch.expm1(-self.alpha * completions.mean_logprob) / self.alpha
