"""The completions that are learnt from, and the advantages that imitate them or set the best against the worst."""

from dataclasses import replace
from typing import Annotated

import torch
from annotated_types import Gt
from torch import Tensor

from lightrl import Advantage, Advantages, Experience, TokenWeight, broadcast_to_tokens


class BestOfGroup(TokenWeight):
    """Keeps the best completion of each group.

    m = 1 on the row with the highest reward of its group, of several the one that the policy found likeliest; 0 on the others, whose
    rewards stay in what is reported.

    Source: Dong et al. 2023 (RAFT), arXiv:2304.06767, algorithm 1.
    """

    needs_rewards = True
    compares = True

    def __init__(self, at_least: float | None = None) -> None:
        """
        Args:
            at_least: a group whose best reward is lower is left out; null keeps the best of every group, however bad.
        """
        self.at_least = at_least

    def weights(self, experience: Experience) -> Tensor:
        rows, best = torch.zeros_like(experience.scorable), best_rows(experience)
        rows[best] = True if self.at_least is None else experience.rewards[best] >= self.at_least
        return _kept(rows, experience)


class AtLeast(TokenWeight):
    """Keeps every completion that is good enough.

    m = 1 where R >= threshold; prompts with many good answers weigh more than prompts with few.

    Source: Yuan et al. 2023 (RFT), arXiv:2308.01825, section 3.3; Gulcehre et al. 2023 (ReST), arXiv:2308.08998, eq. 2.
    """

    needs_rewards = True

    def __init__(self, threshold: float = 1.0) -> None:
        """
        Args:
            threshold: lowest reward that is imitated.
        """
        self.threshold = threshold

    def weights(self, experience: Experience) -> Tensor:
        return _kept(experience.scorable & (experience.rewards >= self.threshold), experience)


class BestAndWorst(TokenWeight):
    """Keeps the best and the worst completion of each group, and nothing of a group whose rewards are all equal.

    Source: Guo et al. 2024 (OAIF), arXiv:2402.04792, section 3.
    """

    needs_rewards = True
    compares = True

    def weights(self, experience: Experience) -> Tensor:
        rows = torch.zeros_like(experience.scorable)
        rows[torch.cat(best_and_worst(experience))] = True
        return _kept(rows, experience)


def best_rows(experience: Experience) -> Tensor:
    """`[P]` rows: of each group with a scorable row the one with the highest reward; of several the one that the policy found likeliest."""
    likelihood = torch.where(experience.response_mask, experience.rollout_logprobs, 0.0).double().sum(1)
    found = []
    for group in torch.unique(experience.group):
        rows = ((experience.group == group) & experience.scorable).nonzero()[:, 0]
        if len(rows):
            best = rows[experience.rewards[rows] == experience.rewards[rows].max()]
            found.append(best[likelihood[best].argmax()])
    return torch.stack(found) if found else torch.zeros(0, dtype=torch.long, device=experience.group.device)


def best_and_worst(experience: Experience) -> tuple[Tensor, Tensor]:
    """`[P]` rows each: the best and the worst one of every group whose scorable rewards are not all equal."""
    best, worst = best_rows(experience), best_rows(replace(experience, rewards=-experience.rewards))
    differ = experience.rewards[best] != experience.rewards[worst]
    return best[differ], worst[differ]


def _kept(rows: Tensor, experience: Experience) -> Tensor:
    return rows[:, None].to(experience.token_rewards.dtype).expand_as(experience.token_rewards)


class Imitation(Advantage):
    """Every completion that carries loss is made likelier, all by the same.

    A_i = 1; with `PolicyGradient` the loss is the negative log-likelihood of the rows that the token weight keeps.

    Source: Dong et al. 2023 (RAFT), arXiv:2304.06767, algorithm 1, step 3.
    """

    needs_rewards = False

    def compute(self, experience: Experience) -> Advantages:
        return Advantages(broadcast_to_tokens(torch.ones_like(experience.rewards), experience))


class BestAgainstWorst(Advantage):
    """The best completion of each group is chosen, the worst rejected, and both get the weight that DPO's gradient gives them.

    With h = beta [(log pi(w) - log ref(w)) - (log pi(l) - log ref(l))], summed over tokens, the gradient of -log sigmoid(h) is
    -beta sigmoid(-h) (grad log pi(w) - grad log pi(l)). So A_w = 2 beta sigmoid(-h) = -A_l, where the 2 is for `SequenceSum`, which
    takes the mean over rows and so counts a pair twice. With `PolicyGradient`, `BestAndWorst` and one optimizer step per rollout the
    step's gradient is DPO's, the mean over pairs. Groups of equal rewards, and rows between best and worst, get 0.

    Source: Guo et al. 2024 (OAIF), arXiv:2402.04792, section 3; Rafailov et al. 2023 (DPO), arXiv:2305.18290, eq. 7.
    """

    needs = frozenset({"ref_logprobs"})
    compares = True

    def __init__(self, beta: Annotated[float, Gt(0)] = 0.1) -> None:
        """
        Args:
            beta: how strongly the policy is held to the reference; > 0.
        """
        self.beta = beta

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
