"""Divergences of the policy and its teacher over the whole vocabulary, in the chunks of the log-probs."""

from __future__ import annotations

import math
from typing import Annotated

import torch
from annotated_types import Gt, Lt
from torch import Tensor

from lightrl import Comparison


class ForwardKL(Comparison):
    """The divergence that spreads the policy over all that the teacher may say.

    D_t = KL(pi_T || pi) = sum_v pi_T(v) (log pi_T(v) - log pi(v)), in nats.

    Source: Agarwal et al. 2024 (GKD), arXiv:2306.13649, section 2.
    """

    name = "forward_kl"

    def compare(self, logits: Tensor, other: Tensor, ids: Tensor) -> Tensor:
        return kl(other.log_softmax(-1), logits.log_softmax(-1))


class ReverseKL(Comparison):
    """The divergence that keeps the policy to what the teacher finds likely.

    D_t = KL(pi || pi_T) = sum_v pi(v) (log pi(v) - log pi_T(v)), in nats.

    Source: Agarwal et al. 2024 (GKD), arXiv:2306.13649, section 2; Gu et al. 2024 (MiniLLM), arXiv:2306.08543.
    """

    name = "reverse_kl"

    def compare(self, logits: Tensor, other: Tensor, ids: Tensor) -> Tensor:
        return kl(logits.log_softmax(-1), other.log_softmax(-1))


class JensenShannon(Comparison):
    """The generalised Jensen-Shannon divergence, which is bounded.

    D_t = beta KL(pi_T || m) + (1 - beta) KL(pi || m), m = beta pi_T + (1 - beta) pi, in nats. Divided by beta it nears `ForwardKL` as beta
    goes to 0, and divided by 1 - beta it nears `ReverseKL` as beta goes to 1.

    Source: Agarwal et al. 2024 (GKD), arXiv:2306.13649, section 2.
    """

    name = "jensen_shannon"

    def __init__(self, beta: Annotated[float, Gt(0), Lt(1)] = 0.5) -> None:
        """
        Args:
            beta: share of the teacher in the mixture, in (0, 1).
        """
        self.beta = beta

    def compare(self, logits: Tensor, other: Tensor, ids: Tensor) -> Tensor:
        policy, teacher = logits.log_softmax(-1), other.log_softmax(-1)
        mixture = torch.logaddexp(policy.clamp(min=LEAST) + math.log1p(-self.beta), teacher.clamp(min=LEAST) + math.log(self.beta))
        return self.beta * kl(teacher, mixture) + (1 - self.beta) * kl(policy, mixture)


LEAST = -1e30
"""In place of the log-prob -inf of a token that is never sampled: the sum of two of these has a gradient, of 0."""


def kl(first: Tensor, second: Tensor) -> Tensor:
    """`[k]`: KL(first || second) of log-probs `[k, V]`; a token that the first never samples adds nothing."""
    sampled = first > -torch.inf
    gap = torch.where(sampled, first, 0.0) - torch.where(sampled, second, 0.0)
    return (first.exp() * gap).sum(-1)
