"""Clip schemes: how far one update may move the policy away from the one that sampled."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

import torch
from annotated_types import Ge, Gt, Le, Lt
from torch import Tensor

from lightrl.parts.step_part import StepPart
from lightrl.ranges import Positive
from lightrl.types import Statistics


@dataclass(frozen=True)
class Surrogate:
    """The result of a clip scheme for a micro-batch of n rows and L positions."""

    loss: Tensor
    """`[n, L]`, to be minimised, one value per token, not reduced; anything where the mask is False."""
    clipped_low: Tensor
    """`[n, L]` bool: the lower bound took this token's gradient away."""
    clipped_high: Tensor
    """`[n, L]` bool: the upper bound took this token's gradient away."""
    shares: Mapping[str, Tensor] = field(default_factory=dict)
    """`[n, L]` bool by name, each logged as the share of all tokens with a policy loss; a token without advantage counts as False."""
    statistics: Statistics = field(default_factory=dict)
    """Named numbers per row or token, reduced over the rows that have an advantage."""


class ClipScheme(StepPart):
    """Turns a log-ratio and an advantage into a per-token loss."""

    row_constant: bool = False
    """The loss is one number per row: wants an aggregation that divides by the row's own length."""
    token_ratio_only: bool = False
    """The loss is made of the log-prob, or the ratio, of each token: wants ratio `TokenRatio`."""
    silent_without_advantage: bool = False
    """A row whose advantages are all 0 has no gradient; the core may then leave such rows out of the forward pass."""
    bounded: bool = True
    """Something limits how far one update may go: the scheme may be used for several optimizer steps on one rollout."""

    @abstractmethod
    def surrogate(self, log_ratio: Tensor, advantages: Tensor, old_logprobs: Tensor, mask: Tensor) -> Surrogate:
        """Per-token loss of the policy.

        Args:
            log_ratio: `[n, L]` log pi_new - log pi_old, as the importance ratio of the algorithm defines it; its value is kept within
                +-20, and it carries the whole gradient beyond that too.
            advantages: `[n, L]`, no gradient.
            old_logprobs: `[n, L]`, no gradient, for bounds that depend on the old probability.
            mask: `[n, L]` bool, tokens that carry a loss, for schemes that reduce inside a row.
        """


class DecoupledClip(ClipScheme):
    """PPO's pessimistic clip with separate bounds (clip-higher).

    J_t = min(r_t A_t, clip(r_t, 1 - low, 1 + high) A_t), with r_t = exp(log_ratio_t). Equal bounds give PPO's own clip.

    Source: Schulman et al. 2017, arXiv:1707.06347, eq. 7; Yu et al. 2025 (DAPO), arXiv:2503.14476, eq. 10.
    """

    silent_without_advantage = True

    def __init__(self, low: Annotated[float, Ge(0), Le(1)] = 0.2, high: Positive = 0.28) -> None:
        """
        Args:
            low: how far the ratio may fall below 1 while the advantage is negative; in [0, 1], and with 1 as far as it may.
            high: how far it may rise above 1 while the advantage is positive; > 0.

        Raises:
            ValueError: a bound outside its range.
        """
        self.low, self.high = low, high

    def surrogate(self, log_ratio: Tensor, advantages: Tensor, old_logprobs: Tensor, mask: Tensor) -> Surrogate:
        ratio = log_ratio.exp()
        bounded = ratio.clamp(1 - self.low, 1 + self.high)
        return Surrogate(
            loss=-torch.minimum(ratio * advantages, bounded * advantages),
            clipped_low=(ratio < 1 - self.low) & (advantages < 0),
            clipped_high=(ratio > 1 + self.high) & (advantages > 0),
        )


class SymmetricClip(DecoupledClip):
    """PPO's pessimistic clip with one bound either way.

    J_t = min(r_t A_t, clip(r_t, 1 - epsilon, 1 + epsilon) A_t), with r_t = exp(log_ratio_t).

    Source: Schulman et al. 2017, arXiv:1707.06347, eq. 7.
    """

    def __init__(self, epsilon: Annotated[float, Gt(0), Lt(1)] = 0.2) -> None:
        """
        Args:
            epsilon: how far the ratio may leave 1; in (0, 1).

        Raises:
            ValueError: epsilon outside its range.
        """
        super().__init__(low=epsilon, high=epsilon)
        self.epsilon = epsilon


class NoClip(ClipScheme):
    """The importance-weighted policy gradient without a bound.

    J_t = r_t A_t, with r_t = exp(log_ratio_t). With more than one optimizer step per rollout nothing holds the policy.

    Source: Kakade & Langford 2002, as quoted in Schulman et al. 2017, arXiv:1707.06347, eq. 6.
    """

    bounded = False
    silent_without_advantage = True

    def surrogate(self, log_ratio: Tensor, advantages: Tensor, old_logprobs: Tensor, mask: Tensor) -> Surrogate:
        return _unclipped(-log_ratio.exp() * advantages)


class PolicyGradient(ClipScheme):
    """The score function estimator, for one step per rollout.

    J_t = A_t log pi(o_t), with log pi = log_ratio + old_logprobs, hence for `TokenRatio` only.

    Source: Williams 1992 (REINFORCE), Machine Learning 8.
    """

    token_ratio_only = True
    bounded = False
    silent_without_advantage = True

    def surrogate(self, log_ratio: Tensor, advantages: Tensor, old_logprobs: Tensor, mask: Tensor) -> Surrogate:
        return _unclipped(-advantages * (log_ratio + old_logprobs))


def _unclipped(loss: Tensor) -> Surrogate:
    nowhere = torch.zeros_like(loss, dtype=torch.bool)
    return Surrogate(loss=loss, clipped_low=nowhere, clipped_high=nowhere)
