"""IPO (Azar et al. 2023, arXiv:2310.12036): a margin to be met, not to be exceeded."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from lightrl import Likelihood
from lightrl_preference.implicit_reward import ImplicitReward
from lightrl_preference.margin import MarginObjective


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
