"""Numbers of held-out completions and comparisons as `Metric` classes of torchmetrics, for scripts and for `evaluation.metrics`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torchmetrics import Metric

from lightrl.ops.pass_at_k import majority, pass_at_k


class WeightedMean(Metric):
    """A mean in float64 of values by weight, over calls and ranks; NaN values are left out."""

    full_state_update = False
    higher_is_better: bool | None = True
    total: Tensor
    weight: Tensor

    def __init__(self, **settings: object) -> None:
        """`settings`: those of every `torchmetrics.Metric`."""
        super().__init__(**settings)
        for name in ("total", "weight"):
            self.add_state(name, torch.zeros((), dtype=torch.float64), "sum")

    def add(self, values: Tensor, weight: Tensor | None = None) -> None:
        """Add values of any shape, and their weights of the same shape; None: 1 each."""
        counts = ~values.isnan()
        self.total += (values if weight is None else values * weight)[counts].double().sum()
        self.weight += (counts if weight is None else weight[counts]).double().sum()

    def compute(self) -> Tensor:
        """The mean; NaN without values."""
        return self.total / self.weight


class TextExactMatch(WeightedMean):
    """The share of completions that are their answer, or one of their answers, but for space around it."""

    def update(self, preds: Sequence[str], target: Sequence[str | Sequence[str]]) -> None:
        """Add completions and their answers."""
        allowed = ([answers] if isinstance(answers, str) else answers for answers in target)
        right = [text.strip() in [one.strip() for one in answers] for text, answers in zip(preds, allowed, strict=True)]
        self.add(torch.tensor(right, device=self.device).double())


class AverageAtNScore(WeightedMean):
    """avg@n, the share of right completions, averaged over prompts."""

    def update(self, count: Tensor, right: Tensor) -> None:
        """Add prompts, by `[P]` numbers of their completions and of those that are right."""
        self.add(right.double() / count)


class PassAtKScore(WeightedMean):
    """pass@k, the chance that one of k completions is right, averaged over prompts: `ops.pass_at_k.pass_at_k`."""

    def __init__(self, k: int, **settings: object) -> None:
        """`k`: completions that one may try; prompts with fewer are left out."""
        super().__init__(**settings)
        self.k = k

    def update(self, count: Tensor, right: Tensor) -> None:
        """Add prompts, by `[P]` numbers of their completions and of those that are right."""
        self.add(pass_at_k(count, right, self.k))


class MajorityAtNScore(WeightedMean):
    """maj@n, the share of prompts whose most common answer is right: `ops.pass_at_k.majority`."""

    def update(self, answers: Sequence[Sequence[str | None]], right: Sequence[Sequence[float]]) -> None:
        """Add prompts, by the answers of their completions, None where there is none, and 1 where one is right."""
        shares = [majority(said, marks) for said, marks in zip(answers, right, strict=True)]
        self.add(torch.tensor(shares, device=self.device, dtype=torch.float64))


class PreferenceAccuracy(WeightedMean):
    """The share of comparisons in which the better completion has the higher score; a tie is half."""

    def update(self, better: Tensor, worse: Tensor) -> None:
        """Add comparisons, by `[P]` scores of either completion."""
        self.add(right_order(better - worse))


class HeldOutLoss(WeightedMean):
    """The negative log-likelihood per token, by weight."""

    higher_is_better = False

    def update(self, logprobs: Tensor, token_weight: Tensor) -> None:
        """Add tokens, by log-probs and weights of one shape."""
        self.add(-logprobs, token_weight)


def right_order(difference: Tensor) -> Tensor:
    """`[P]` 1 where the better one leads, 1/2 where both score alike, 0 elsewhere; of `[P]` differences better - worse."""
    return (difference.sign() + 1) / 2
