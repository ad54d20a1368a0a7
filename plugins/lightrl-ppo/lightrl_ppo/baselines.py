"""Baselines of REINFORCE: what a return is compared with."""

from abc import abstractmethod
from typing import Any, Literal

import torch
from torch import Tensor

from lightrl import Advantages, DiscountedReturn, Experience, Ranks, moments


class CentredReturn(DiscountedReturn):
    """Returns minus a baseline per row.

    A_t = G_t - b_i on the response tokens of row i.

    Source: Williams 1992 (REINFORCE), Machine Learning 8, section 4.
    """

    @abstractmethod
    def baseline_of(self, experience: Experience, first: Tensor) -> Tensor:
        """`[N]`: b_i of each row.

        Args:
            experience: the rows of this rank.
            first: `[N]` float64, the return of each row from its first response token on; NaN on rows that do not count.
        """

    def compute(self, experience: Experience) -> Advantages:
        returns = self.returns(experience)
        mask = experience.response_mask & experience.scorable[:, None]
        first = returns.gather(1, mask.int().argmax(1, keepdim=True))[:, 0]
        # a row without response tokens has its reward and no token to return it from
        first = torch.where(mask.any(1), first, experience.rewards).double().masked_fill(~experience.scorable, torch.nan)
        # in the precision of the returns, so that a return that equals its baseline gives exactly 0
        baseline = self.baseline_of(experience, first).to(returns.dtype)
        advantages = torch.where(mask, returns - baseline[:, None], 0.0)
        return Advantages(advantages, statistics={"baseline": torch.where(mask.any(1), baseline, torch.nan)})


class BatchCentered(CentredReturn):
    """Returns minus their mean over the rollout.

    A_t = G_t - mean_i(G of row i from its first token on), over the scorable rows of all ranks, the row itself included.

    Source: Williams 1992 (REINFORCE), Machine Learning 8, section 4.
    """

    baseline: Literal["group", "batch", "values", "none"] = "batch"

    def baseline_of(self, experience: Experience, first: Tensor) -> Tensor:
        return torch.full_like(first, _mean(first, experience.ranks, otherwise=0.0))


class MovingAverageCentered(CentredReturn):
    """Returns minus a moving average over the rollouts before this one.

    A_t = G_t - b, then b <- decay b + (1 - decay) mean_i(G of row i); in the first rollout b is its own mean.

    Source: Williams 1992 (REINFORCE), Machine Learning 8, section 4 (reinforcement comparison).
    """

    against = "a moving average"

    def __init__(self, decay: float = 0.9, gamma: float = 1.0) -> None:
        """
        Args:
            decay: share of the old average; in [0, 1).
            gamma: discount per token, in [0, 1].

        Raises:
            ValueError: an argument outside its range.
        """
        super().__init__(gamma)
        if not 0 <= decay < 1:
            raise ValueError(f"MovingAverageCentered needs decay in [0, 1), got {decay}")
        self.decay = decay
        self._average: float | None = None
        self._next: float | None = None

    def baseline_of(self, experience: Experience, first: Tensor) -> Tensor:
        now = _mean(first, experience.ranks, otherwise=self._average)
        before = now if self._average is None else self._average
        self._next = before if now is None or before is None else self.decay * before + (1 - self.decay) * now
        return torch.full_like(first, 0.0 if before is None else before)

    def commit(self) -> None:
        """Move the average, now that the steps have happened."""
        self._average = self._next

    def state_dict(self) -> dict[str, Any]:
        return {} if self._average is None else {"average": self._average}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._average = state.get("average")


def _mean(values: Tensor, ranks: Ranks, otherwise: Any) -> Any:
    of_all = moments(values[~values.isnan()], ranks)
    return of_all.mean if of_all.count else otherwise
