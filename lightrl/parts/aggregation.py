"""Aggregations: what a token weighs in the loss of one optimizer step.

loss = sum over all rows, tokens, micro-batches and ranks of w[i, t] * loss[i, t]. With m the token weights, L_i = sum_t m
of row i, N_tok = sum of m, S the rows with L_i > 0 and P the groups with such a row, all counted over the whole step.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

import torch
from torch import Tensor

from lightrl.parts.base import Part
from lightrl.ranges import Count
from lightrl.types import Denominators


class Aggregation(Part):
    """Turns token weights and the denominators of the whole optimizer step into the weight of each token."""

    divides_by_row_length: bool = False
    """A row's tokens share one weight of the row: what row-constant surrogates need."""

    @abstractmethod
    def weights(self, token_weight: Tensor, group: Tensor, denominators: Denominators) -> Tensor:
        """`[n, L]` weights of the tokens of a micro-batch.

        Args:
            token_weight: `[n, L]`, 0 where there is no loss.
            group: `[n]` int64.
            denominators: of the whole optimizer step over all ranks.
        """


class TokenMean(Aggregation):
    """Every token weighs the same.

    w = m / N_tok.

    Source: Yu et al. 2025 (DAPO), arXiv:2503.14476, eq. 12.
    """

    def weights(self, token_weight: Tensor, group: Tensor, denominators: Denominators) -> Tensor:
        return _divided(token_weight, denominators.tokens)


class SequenceSum(Aggregation):
    """The mean over rows of the sum over each row's tokens.

    w = m / S.

    Source: Williams 1992 (REINFORCE); Ahmadian et al. 2024 (RLOO), arXiv:2402.14740.
    """

    def __init__(self, count_filtered: bool = False) -> None:
        """
        Args:
            count_filtered: S counts all rows, those without a token of non-zero weight included.
        """
        self.count_filtered = count_filtered

    def weights(self, token_weight: Tensor, group: Tensor, denominators: Denominators) -> Tensor:
        return _divided(token_weight, denominators.all_rows if self.count_filtered else denominators.rows)


class SequenceMean(SequenceSum):
    """The mean over rows of the mean over each row's tokens.

    w = m / (S L_i).

    Source: Shao et al. 2024 (GRPO), arXiv:2402.03300, eq. 3.
    """

    divides_by_row_length = True

    def weights(self, token_weight: Tensor, group: Tensor, denominators: Denominators) -> Tensor:
        return super().weights(_per_row(token_weight), group, denominators)


class ConstantLength(SequenceSum):
    """The mean over rows of the sum over tokens, divided by one constant.

    w = m / (S C).

    Source: Liu et al. 2025 (Dr.GRPO), arXiv:2503.20783.
    """

    def __init__(self, length: Count, count_filtered: bool = False) -> None:
        """
        Args:
            length: C in tokens, the longest response that can occur; > 0.
            count_filtered: S counts all rows, those without a token of non-zero weight included.

        Raises:
            ValueError: length is not positive.
        """
        super().__init__(count_filtered)
        self.length = length

    def weights(self, token_weight: Tensor, group: Tensor, denominators: Denominators) -> Tensor:
        return super().weights(token_weight, group, denominators) / self.length


class SequenceSumTokenMean(Aggregation):
    """The sum over the rows of a prompt of the mean over each row's tokens.

    w = m / (P L_i) per prompt, or m / L_i over the batch.

    Source: Yang et al. 2025 (DCPO), arXiv:2509.02333, eq. 8.
    """

    divides_by_row_length = True

    def __init__(self, over: Literal["prompt", "batch"] = "prompt") -> None:
        """
        Args:
            over: `prompt` averages the sums over prompts; `batch` adds them, so that the gradient grows with the batch.
        """
        self.over = over

    @property
    def compares(self) -> bool:
        # a prompt whose rows are spread over steps would count once in each of them
        return self.over == "prompt"

    def weights(self, token_weight: Tensor, group: Tensor, denominators: Denominators) -> Tensor:
        return _divided(_per_row(token_weight), denominators.prompts if self.over == "prompt" else 1.0)


def _per_row(token_weight: Tensor) -> Tensor:
    return _divided(token_weight, token_weight.sum(1, keepdim=True))


def _divided(weights: Tensor, by: float | Tensor) -> Tensor:
    # an empty count has no tokens to weigh: 0 / 0 is 0 here
    if not isinstance(by, Tensor):
        return weights / by if by else torch.zeros_like(weights)
    return torch.where(by == 0, 0.0, weights / torch.where(by == 0, 1.0, by))
