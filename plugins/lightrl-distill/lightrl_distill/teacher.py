"""Parts that learn from a teacher: divergences over the whole vocabulary, their loss, and the reverse KL as an advantage."""

import math
from typing import Annotated

import torch
from annotated_types import Ge, Gt, Le, Lt
from torch import Tensor

from lightrl import (
    Advantage,
    Advantages,
    Aggregation,
    Comparison,
    Experience,
    LossTerm,
    PolicyOutput,
    TrainingBatch,
    generalised_advantages,
)

LEAST = -1e30
"""In place of the log-prob -inf of a token that is never sampled: the sum of two of these has a gradient, of 0."""


class Divergence(Comparison):
    """A sum over the vocabulary, of which each entry may be bounded.

    D_t = sum_v min(d_v, clip). Tokens of style, which a teacher that reads more finds far likelier, would else be all that is learnt. With
    a clip the sum can be negative, since entries below 0 stay as they are.

    Source: Zhao et al. 2026 (OPSD), arXiv:2601.18734, for the clip in the code that belongs to it.
    """

    def __init__(self, clip: Annotated[float, Gt(0)] | None = None) -> None:
        """
        Args:
            clip: the most that an entry of the vocabulary adds, in nats; null: anything.
        """
        self.clip = clip

    def summed(self, entries: Tensor) -> Tensor:
        """`[k]` of `[k, V]`."""
        return (entries if self.clip is None else entries.clamp(max=self.clip)).sum(-1)


class ForwardKL(Divergence):
    """The divergence that spreads the policy over all that the teacher may say.

    D_t = KL(pi_T || pi) = sum_v pi_T(v) (log pi_T(v) - log pi(v)), in nats.

    Source: Agarwal et al. 2024 (GKD), arXiv:2306.13649, section 2.
    """

    name = "forward_kl"

    def compare(self, logits: Tensor, other: Tensor, ids: Tensor) -> Tensor:
        return self.summed(kl_entries(other.log_softmax(-1), logits.log_softmax(-1)))


class ReverseKL(Divergence):
    """The divergence that keeps the policy to what the teacher finds likely.

    D_t = KL(pi || pi_T) = sum_v pi(v) (log pi(v) - log pi_T(v)), in nats.

    Source: Agarwal et al. 2024 (GKD), arXiv:2306.13649, section 2; Gu et al. 2024 (MiniLLM), arXiv:2306.08543.
    """

    name = "reverse_kl"

    def compare(self, logits: Tensor, other: Tensor, ids: Tensor) -> Tensor:
        return self.summed(kl_entries(logits.log_softmax(-1), other.log_softmax(-1)))


class JensenShannon(Divergence):
    """The generalised Jensen-Shannon divergence, which is bounded.

    D_t = beta KL(pi_T || m) + (1 - beta) KL(pi || m), m = beta pi_T + (1 - beta) pi, in nats. Divided by beta it nears `ForwardKL` as beta
    goes to 0, and divided by 1 - beta it nears `ReverseKL` as beta goes to 1.

    Source: Agarwal et al. 2024 (GKD), arXiv:2306.13649, section 2.
    """

    name = "jensen_shannon"

    def __init__(self, beta: Annotated[float, Gt(0), Lt(1)] = 0.5, clip: Annotated[float, Gt(0)] | None = None) -> None:
        """
        Args:
            beta: share of the teacher in the mixture, in (0, 1).
            clip: the most that an entry of the vocabulary adds, in nats; null: anything.
        """
        super().__init__(clip)
        self.beta = beta

    def compare(self, logits: Tensor, other: Tensor, ids: Tensor) -> Tensor:
        policy, teacher = logits.log_softmax(-1), other.log_softmax(-1)
        mixture = torch.logaddexp(policy.clamp(min=LEAST) + math.log1p(-self.beta), teacher.clamp(min=LEAST) + math.log(self.beta))
        return self.summed(self.beta * kl_entries(teacher, mixture) + (1 - self.beta) * kl_entries(policy, mixture))


def kl_entries(first: Tensor, second: Tensor) -> Tensor:
    """`[k, V]`: the entries of KL(first || second) of log-probs; a token that the first never samples adds nothing."""
    sampled = first > -torch.inf
    gap = torch.where(sampled, first, 0.0) - torch.where(sampled, second, 0.0)
    return first.exp() * gap


class TeacherLoss(LossTerm):
    """Brings the policy near its teacher on what the policy has sampled, over the whole vocabulary.

    loss_t = D(pi_T(. | o_<t), pi(. | o_<t)); no gradient flows through the sampling. Rows of which a `PrivilegedTeacher` knows no more than
    the policy have no part in it.

    Source: Agarwal et al. 2024 (GKD), arXiv:2306.13649, section 3.
    """

    def __init__(
        self,
        divergence: Comparison = JensenShannon(beta=0.5),
        coefficient: Annotated[float, Ge(0), Le(1e15)] = 1.0,
        aggregation: Aggregation | None = None,
    ) -> None:
        """
        Args:
            divergence: of the policy and its teacher.
            coefficient: weight of the term in the loss; 0 switches it off.
            aggregation: what a token weighs in this term; null: every token the same.
        """
        super().__init__(coefficient, aggregation)
        self.divergence = divergence

    @property
    def outputs(self) -> tuple[Comparison, ...]:
        return (self.divergence,) if self.coefficient else ()

    def weights(self, experience: TrainingBatch) -> Tensor:
        return experience.token_weight * experience.informed("teacher")[:, None]

    def loss(self, experience: TrainingBatch, output: PolicyOutput) -> Tensor:
        return output.needed(self.divergence.name)


class TeacherAdvantage(Advantage):
    """The log-prob of a sampled token under the teacher, less that under the policy that sampled it.

    A_t = sum_{s >= t} gamma^(s - t) (log pi_T(o_s) - log pi(o_s)). With gamma 0 the expected gradient is that of -KL(pi || pi_T) of the
    next token, at the places that the policy visits; with gamma 1 it is that of whole completions.

    Source: Lu et al. 2025 (On-Policy Distillation), Thinking Machines Lab, with gamma 0; Gu et al. 2024 (MiniLLM), arXiv:2306.08543,
    section 2.2, with gamma 1.
    """

    needs = frozenset({"teacher_logprobs"})
    needs_rewards = False

    def __init__(self, gamma: Annotated[float, Ge(0), Le(1)] = 0.0) -> None:
        """
        Args:
            gamma: discount per token of what the teacher says of later tokens, in [0, 1]; 0: each token by itself.
        """
        self.gamma = gamma

    def compute(self, experience: Experience) -> Advantages:
        kept = experience.response_mask & (experience.scorable & experience.informed("teacher"))[:, None]
        teacher, own = experience.needed("teacher_logprobs"), experience.old_logprobs
        gap = torch.where(kept, teacher - own, 0.0).to(experience.token_rewards.dtype)
        advantages = generalised_advantages(gap, torch.zeros_like(gap), kept, self.gamma, 1.0)
        return Advantages(advantages, statistics={"teacher/reverse_kl": torch.where(kept, -gap, torch.nan)})
