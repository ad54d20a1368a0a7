"""The gradient of DPO on the policy's own completions, as an advantage."""

from __future__ import annotations

import torch

from lightrl import Advantage, Advantages, Experience, broadcast_to_tokens
from lightrl_rft.selection import best_and_worst


class BestAgainstWorst(Advantage):
    """The best completion of each group is chosen, the worst rejected, and both get the weight that DPO's gradient gives them.

    With h = beta [(log pi(w) - log ref(w)) - (log pi(l) - log ref(l))], summed over tokens, the gradient of -log sigmoid(h) is
    -beta sigmoid(-h) (grad log pi(w) - grad log pi(l)). So A_w = 2 beta sigmoid(-h) = -A_l, where the 2 is for `SequenceSum`, which
    takes the mean over rows and so counts a pair twice. With `PolicyGradient`, `BestAndWorst` and one optimizer step per rollout the
    step's gradient is DPO's, the mean over pairs. Groups of equal rewards, and rows between best and worst, get 0.

    Source: Guo et al. 2024 (OAIF), arXiv:2402.04792, section 3; Rafailov et al. 2023 (DPO), arXiv:2305.18290, eq. 7.
    """

    baseline = "group"
    against = "the other completion of the pair, by DPO's implicit reward"

    def __init__(self, beta: float = 0.1) -> None:
        """
        Args:
            beta: how strongly the policy is held to the reference; > 0.

        Raises:
            ValueError: beta is not positive.
        """
        if beta <= 0:
            raise ValueError(f"BestAgainstWorst needs beta > 0, got {beta}")
        self.beta = beta

    @property
    def needs(self) -> frozenset[str]:
        """Log-probs of the reference."""
        return frozenset({"ref_logprobs"})

    def compute(self, experience: Experience) -> Advantages:
        if experience.ref_logprobs is None:
            raise ValueError("BestAgainstWorst needs the log-probs of a reference")
        margin = torch.where(experience.response_mask, experience.old_logprobs - experience.ref_logprobs, 0.0).double().sum(1)
        chosen, rejected = best_and_worst(experience)
        h = self.beta * (margin[chosen] - margin[rejected])
        advantage = torch.zeros_like(margin)
        advantage[chosen] = 2 * self.beta * torch.sigmoid(-h)
        advantage[rejected] = -advantage[chosen]
        found = torch.full_like(margin, torch.nan).index_put((chosen,), h)
        statistics = {"dpo/margin": found, "dpo/accuracy": torch.where(found.isnan(), found, (found > 0).double())}
        return Advantages(broadcast_to_tokens(advantage, experience), statistics=statistics)
