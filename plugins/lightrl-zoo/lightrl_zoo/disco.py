"""Right completions against wrong ones, without a ratio: DisCO, and DRPO, in which short right ones count more."""

from typing import Annotated

import torch
from annotated_types import Ge, Gt, Le
from torch import Tensor

from lightrl import (
    GroupRelative,
    GroupSampler,
    Likelihood,
    LossTerm,
    Minibatch,
    NoAdvantage,
    PolicyGradient,
    PolicyOutput,
    RowLoss,
    SequenceSum,
    TrainingBatch,
    WithStatistics,
)

WEIGHT, EXCESS = "disco_weight", "kl_excess"
"""Names under which the weight of a row, and what the KL is too large by, travel from the step to its micro-batches."""


class DiscriminativeLoss(RowLoss):
    """Right completions are made likelier, and the wrong ones less likely that the policy finds likeliest.

    J = mean_x [sum_{y right} w_y s(y) - tau log mean_{y wrong} exp(s(y) / tau)], with s(y) = log pi(y | x) / |y| and
    w_y ~ exp(-|y| / (length lam)), which sum to 1 over the right completions of a prompt. The loss is linear in s, with the gradient of -J:
    s(y) of a wrong completion has the weight exp(s(y) / tau) / sum, which the policy before the step decides. A prompt whose
    completions are all right, or all wrong, has no gradient and is counted.

    Source: Li et al. 2025 (DisCO), arXiv:2505.12366, with the log-likelihood as s; w: Li et al. 2025 (DRPO), arXiv:2510.04474, and the
    authors' code.
    """

    compares = True
    gives = frozenset({WEIGHT})

    def __init__(
        self,
        tau: Annotated[float, Gt(0)] = 10.0,
        lam: Annotated[float, Gt(0)] | None = None,
        length: Annotated[int, Ge(1)] = 8192,
        right_above: float = 0.5,
        coefficient: Annotated[float, Ge(0), Le(1e15)] = 1.0,
    ) -> None:
        """
        Args:
            tau: temperature of the wrong completions; a small one looks at the likeliest alone; > 0.
            lam: how evenly short and long right completions count; > 0. null: all alike.
            length: the longest completion, in tokens, by which lengths are divided.
            right_above: a completion with a reward above it is right.
            coefficient: weight of the term in the loss; 0 switches it off.
        """
        super().__init__(coefficient)
        self.tau, self.lam, self.length, self.right_above = tau, lam, length, right_above

    def prepare(self, minibatch: Minibatch) -> dict[str, Tensor]:
        rows, completions = minibatch.rows, minibatch.completions
        score, tokens = completions.mean_logprob.double(), completions.tokens.double()
        counts = self.weights(rows).any(1)
        right, wrong = counts & (rows.rewards > self.right_above), counts & (rows.rewards <= self.right_above)
        groups, group = torch.unique(rows.group, return_inverse=True)
        short = torch.zeros_like(tokens) if self.lam is None else -tokens / (self.length * self.lam)
        raised = _shares(short, right, group, len(groups))
        lowered = _shares(score / self.tau, wrong, group, len(groups))
        both = _in_group(right, group, len(groups)) & _in_group(wrong, group, len(groups))
        prompts = torch.zeros(len(groups), dtype=torch.bool, device=group.device).index_put((group[counts],), counts[counts])
        # the mean over rows becomes one over prompts
        of_all, of_prompts = minibatch.ranks.total(torch.stack([counts.sum(), prompts.sum()]).double()).tolist()
        weight = torch.where(both, raised - lowered, 0.0) * (of_all / max(of_prompts, 1.0))
        return {WEIGHT: weight.to(minibatch.output.logprobs)}

    def row_loss(self, completions: Likelihood, experience: TrainingBatch, output: PolicyOutput) -> WithStatistics:
        weight, score = completions.prepared[WEIGHT], completions.mean_logprob
        said = score.detach()
        sides = {"right": weight > 0, "wrong": weight < 0}
        statistics = {f"disco/{side}": torch.where(chosen, said, torch.nan) for side, chosen in sides.items()}
        return WithStatistics(-weight * score, statistics)


def _in_group(chosen: Tensor, group: Tensor, groups: int) -> Tensor:
    """`[N]` bool: whether the row's group has a chosen row."""
    return torch.zeros(groups, dtype=torch.long, device=group.device).index_add(0, group, chosen.long())[group] > 0


def _shares(logits: Tensor, chosen: Tensor, group: Tensor, groups: int) -> Tensor:
    """`[N]`: exp(logit), divided by its sum over the chosen rows of the group; 0 of the others."""
    lowest = logits.new_full((groups,), -torch.inf)
    top = lowest.scatter_reduce(0, group, torch.where(chosen, logits, -torch.inf), "amax")[group]
    weight = torch.where(chosen, (logits - torch.where(chosen, top, 0.0)).exp(), 0.0)
    return weight / weight.new_zeros(groups).index_add(0, group, weight)[group].clamp(min=1e-300)


class KLBudget(LossTerm):
    """Holds the policy where its KL from the one that sampled has become too large, and does nothing before.

    loss = strength [K - budget]_+^2 / 2 with K = mean_t (log pi_old(o_t) - log pi(o_t)) over the tokens of the step and all ranks. Its
    gradient is strength [K - budget]_+ times that of K, and the loss that is logged is linear in K, with this gradient.

    Source: Li et al. 2025 (DisCO), arXiv:2505.12366, the squared hinge of its constraint, with the constants of the authors' code for DRPO.
    """

    holds = True

    def __init__(
        self,
        budget: Annotated[float, Ge(0)] = 1e-4,
        strength: Annotated[float, Gt(0), Le(1e15)] = 1e3,
        coefficient: Annotated[float, Ge(0), Le(1e15)] = 1.0,
    ) -> None:
        """
        Args:
            budget: delta: the KL per token that is free, in nats.
            strength: beta: how steeply the penalty rises beyond it; > 0.
            coefficient: weight of the term in the loss; 0 switches it off.
        """
        super().__init__(coefficient)
        self.budget, self.strength = budget, strength

    @property
    def gives(self) -> frozenset[str]:
        return frozenset({EXCESS} if self.coefficient else ())

    def prepare(self, minibatch: Minibatch) -> dict[str, Tensor]:
        if not self.coefficient:
            return {}
        kl = minibatch.moments(minibatch.rows.old_logprobs - minibatch.output.logprobs).mean
        return {EXCESS: minibatch.output.logprobs.new_full((len(minibatch.rows),), max(kl - self.budget, 0.0))}

    def weights(self, experience: TrainingBatch) -> Tensor:
        return experience.token_weight

    def loss(self, experience: TrainingBatch, output: PolicyOutput) -> Tensor:
        gap = torch.where(experience.response_mask, experience.old_logprobs - output.logprobs, 0.0)
        return self.strength * experience.extra(EXCESS)[:, None] * gap


class DisCO(GroupRelative):
    """Discriminative constrained optimisation: right completions against wrong ones, within a budget of KL.

    No advantage, ratio or clip, and no prompt counts more for being harder or easier: see `DiscriminativeLoss` and `KLBudget`. Rewards say
    right or wrong.

    Source: Li et al. 2025, arXiv:2505.12366, with the log-likelihood as the score of a completion.
    """

    best_for = "rewards that say right or wrong, with few right answers; entropy that must not collapse"

    sampler = GroupSampler(group_size=8)
    advantage = NoAdvantage()
    """None: the loss compares the rewards itself."""
    clip = PolicyGradient()
    """Nothing to be clipped: without an advantage this term of the loss is 0."""
    aggregation = SequenceSum()
    minibatches = 4
    disco: LossTerm | None = DiscriminativeLoss()
    """Right completions against wrong ones."""
    budget: LossTerm | None = KLBudget()
    """How far the policy may move on one rollout."""


class DRPO(DisCO):
    """Decoupled reward policy optimisation: DisCO in which, of the right completions, the short ones count more.

    A right completion is never made less likely for its length, as it is where a penalty for length is part of the reward. Set
    `disco.length` to the longest completion, `engine.max_new_tokens`.

    Source: Li et al. 2025, arXiv:2510.04474; constants of the authors' code.
    """

    best_for = "shorter answers from a model that thinks too long, without losing right ones"

    disco: LossTerm | None = DiscriminativeLoss(lam=0.1)
    """Right completions against wrong ones, the short right ones first."""
