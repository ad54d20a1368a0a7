"""Direct reward optimisation: a squared error per completion, of its reward, its value and its log-ratio."""

from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le
from torch import Tensor

from lightrl import (
    ActorCritic,
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
    ValueModel,
    WithStatistics,
    group_statistics,
)

VALUE = "dro_value"
"""Name under which the value of a row's prompt travels, where its group says it."""


class DROLoss(RowLoss):
    """How far reward, value and log-ratio of a completion are from those of the best policy, for which the error is 0.

    loss = (r - sg V - tau rho)^2 / (2 tau) + c (V - r + tau sg rho)^2 / 2, with r the reward of y, V the value of x,
    rho = log pi(y | x) - log pi_ref(y | x), and sg without gradient. The first term is the policy's, whose gradient is that of
    -(r - V) log pi(y | x) + tau rho^2 / 2; the second one is the value's. V is what a critic says before the first token of y (`critic`),
    or the mean of r - tau rho over the group, which is where the second term is smallest for the group's completions (`group`).

    No term has an importance ratio: completions may be of any policy, and several steps on them are as exact as one. On completions of
    the present policy the policy's gradient is that of `RLOO` with the KL in the reward.

    Source: Richemond et al. 2024, arXiv:2405.19107 (DRO, and DRO-V with a learnt value), which divides the policy's loss by tau as here.
    Its completions are given, and have one reward each; the value of a group, and fresh completions, are ours.
    """

    holds = True

    def __init__(
        self,
        tau: Annotated[float, Gt(0)] = 0.1,
        value: Literal["critic", "group"] = "critic",
        value_coefficient: Annotated[float, Ge(0), Le(1e15)] = 1.0,
        coefficient: float = 1.0,
    ) -> None:
        """
        Args:
            tau: how strongly the policy is held to the reference, in units of reward per nat; > 0.
            value: who says V: a critic, which learns it with the policy, or the completions of the prompt's group.
            value_coefficient: c, weight of the critic's error; at least 0. Without a critic it says nothing.
            coefficient: weight of both terms in the loss; 0 switches them off.

        Raises:
            ValueError: an argument outside its range.
        """
        super().__init__(coefficient)
        self.tau, self.value, self.value_coefficient = tau, value, value_coefficient

    @property
    def compares(self) -> bool:
        # the value of a prompt is a mean over the group's completions in the step
        return self.value == "group"

    @property
    def needs(self) -> frozenset[str]:
        if not self.coefficient:
            return frozenset()
        return frozenset({"ref_logprobs", "values"} if self.value == "critic" else {"ref_logprobs"})

    @property
    def gives(self) -> frozenset[str]:
        return frozenset({VALUE} if self.coefficient and self.compares else ())

    def prepare(self, minibatch: Minibatch) -> dict[str, Tensor]:
        if self.value == "critic":
            return {}
        rows = minibatch.rows
        held = rows.rewards - self.tau * minibatch.completions.log_ratio
        return {VALUE: group_statistics(held, rows.group, self.weights(rows).any(1)).mean}

    def row_loss(self, completions: Likelihood, experience: TrainingBatch, output: PolicyOutput) -> WithStatistics:
        held = experience.rewards - self.tau * completions.log_ratio
        learnt = experience.first_sampled(output.needed("values")) if self.value == "critic" else completions.prepared[VALUE].to(held)
        value = learnt.detach()
        loss = (held - value).square() / (2 * self.tau)
        if self.value == "critic":
            loss = loss + self.value_coefficient * (learnt - held.detach()).square() / 2
        statistics = {"dro/value": value, "dro/log_ratio": completions.log_ratio.detach(), "dro/error": (held - value).detach().abs()}
        return WithStatistics(loss, statistics)


class DRO(GroupRelative):
    """Direct reward optimisation, with the value of a prompt from the completions of its group.

    loss = (r - V - tau log(pi(y | x) / pi_ref(y | x)))^2 / (2 tau), as in `DROLoss`.

    Source: Richemond et al. 2024, arXiv:2405.19107, where V is learnt: `DROV` is theirs.
    """

    best_for = "completions of older policies or of somebody else, and several steps on each rollout without a clip; no critic"

    sampler = GroupSampler(group_size=4)
    advantage = NoAdvantage()
    """None: the loss compares the rewards itself."""
    clip = PolicyGradient()
    """Nothing to be clipped: without an advantage this term of the loss is 0."""
    aggregation = SequenceSum()
    dro: LossTerm | None = DROLoss(value="group")
    """The loss of each completion."""


class DROV(ActorCritic):
    """Direct reward optimisation with a learnt value (DRO-V), for one completion of each prompt, sampled or given.

    loss = (r - sg V - tau rho)^2 / (2 tau) + (V - r + tau sg rho)^2 / 2, as in `DROLoss`.

    Source: Richemond et al. 2024, arXiv:2405.19107. The value has a network of its own, as in the paper.
    """

    best_for = "one scored completion of each prompt, sampled by the policy or given by the data"

    advantage = NoAdvantage()
    """None: the loss compares the rewards itself."""
    clip = PolicyGradient()
    """Nothing to be clipped: without an advantage this term of the loss is 0."""
    critic = ValueModel()
    aggregation = SequenceSum()
    dro: LossTerm | None = DROLoss()
    """The loss of each completion, of policy and critic."""
