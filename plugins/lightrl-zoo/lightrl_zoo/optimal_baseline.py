"""The baseline of each token that makes the gradient vary least."""

import torch
from torch import Tensor

from lightrl import Advantages, DiscountedReturn, Experience, Output


class LogitGradient(Output):
    """The squared length of the gradient that a sampled token's log-prob has on the logits.

    ||e_o - pi||^2 = 1 - 2 pi(o_t) + sum_v pi_v^2, at the rollout's temperature; 0 where the policy is certain of the token.

    Source: Li et al. 2026, arXiv:2602.07078, the logit-gradient proxy.
    """

    name = "logit_gradient"

    def compute(self, logits: Tensor, ids: Tensor) -> Tensor:
        """See `Output.compute`."""
        probabilities = logits.softmax(1)
        return 1 - 2 * probabilities.gather(1, ids[:, None])[:, 0] + probabilities.square().sum(1)


class OptimalTokenBaseline(DiscountedReturn):
    """Returns minus, at each place of a completion, a mean over the group in which rows of large gradients weigh more.

    A_t = G_t - b_t, b_t = sum_i W_t^i G_t^i / sum_i W_t^i over the scorable rows of the group that have a token t, the row itself included,
    and W_t = sum_{j <= t} ||e_{o_j} - pi_j||^2, of the policy before the first step. Tokens are counted from the first sampled one. Where
    the returns at a place are equal, as where only one row is as long, A_t is 0.

    Source: Li et al. 2026, arXiv:2602.07078; verl's `adv_estimator: optimal_token_baseline` with `handle_zero_tail: false`.
    """

    compares = True
    exceptions = {
        "equal rewards give exactly 0 where completions of one prompt are compared": "returns are compared at one place of the "
        "completions, and differ there where turns end at other places"
    }

    @property
    def old_outputs(self) -> tuple[Output, ...]:
        return (LogitGradient(),)

    def compute(self, experience: Experience) -> Advantages:
        mask = experience.response_mask & experience.scorable[:, None]
        longest = max(int(mask.sum(1).max()), 1) if len(mask) else 1
        # tokens of others, between turns, have no place: they share the one behind the last
        place = torch.where(mask, mask.cumsum(1) - 1, longest)

        def by_place(values: Tensor) -> Tensor:
            empty = torch.zeros(len(mask), longest + 1, dtype=torch.float64, device=mask.device)
            return empty.scatter(1, place, torch.where(mask, values.double(), 0.0))[:, :longest]

        there, returns = by_place(mask), by_place(self.returns(experience))
        energy = by_place(experience.extra("old_logit_gradient")).cumsum(1) * there
        groups, group = torch.unique(experience.group, return_inverse=True)

        def of_group(values: Tensor) -> Tensor:
            return values.new_zeros(len(groups), longest).index_add(0, group, values)[group]

        # where the policy was certain of every token, all rows count alike
        weights = torch.where(of_group(energy) > 0, energy, there)
        # from a return of the group, so that equal returns give exactly 0
        least = torch.full_like(returns[: len(groups)], torch.inf)
        least = least.scatter_reduce(0, group[:, None].expand_as(returns), torch.where(there > 0, returns, torch.inf), "amin")[group]
        above = torch.where(there > 0, returns - least, 0.0)
        advantages = (above - of_group(weights * above) / of_group(weights).clamp(min=1e-300)) * there
        spread = torch.cat([advantages, advantages.new_zeros(len(mask), 1)], 1).gather(1, place)
        return Advantages(spread.to(experience.token_rewards.dtype))
