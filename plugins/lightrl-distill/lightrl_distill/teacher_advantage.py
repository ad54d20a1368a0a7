"""The reverse KL to a teacher as an advantage: what the teacher finds likelier than the policy is made likelier."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from annotated_types import Ge, Le

from lightrl import Advantage, Advantages, Experience, generalised_advantages


class TeacherAdvantage(Advantage):
    """The log-prob of a sampled token under the teacher, less that under the policy that sampled it.

    A_t = sum_{s >= t} gamma^(s - t) (log pi_T(o_s) - log pi(o_s)). With gamma 0 the expected gradient is that of -KL(pi || pi_T) of the
    next token, at the places that the policy visits; with gamma 1 it is that of whole completions.

    Source: Lu et al. 2025 (On-Policy Distillation), Thinking Machines Lab, with gamma 0; Gu et al. 2024 (MiniLLM), arXiv:2306.08543,
    section 2.2, with gamma 1.
    """

    needs = frozenset({"teacher_logprobs"})
    needs_rewards = False
    against = "the teacher"
    level: Literal["completion", "turn", "token"] = "token"

    def __init__(self, gamma: Annotated[float, Ge(0), Le(1)] = 0.0) -> None:
        """
        Args:
            gamma: discount per token of what the teacher says of later tokens, in [0, 1]; 0: each token by itself.
        """
        self.gamma = gamma

    def compute(self, experience: Experience) -> Advantages:
        kept = experience.response_mask & experience.scorable[:, None]
        teacher, own = experience.needed("teacher_logprobs"), experience.old_logprobs
        gap = torch.where(kept, teacher - own, 0.0).to(experience.token_rewards.dtype)
        advantages = generalised_advantages(gap, torch.zeros_like(gap), kept, self.gamma, 1.0)
        return Advantages(advantages, statistics={"teacher/reverse_kl": torch.where(kept, -gap, torch.nan)})
