"""Objectives: what does an offline batch teach?"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from lightrl.ops.moments import row_sum
from lightrl.parts.base import Part
from lightrl.statistic import WithStatistics
from lightrl.types import PolicyOutput, TrainingBatch


@dataclass(frozen=True)
class Likelihood:
    """The log-probs of n completions, under the policy and under the reference."""

    logprob: Tensor
    """`[n]` log pi(y | x), summed over the tokens of the completion, EOS included; may carry the gradient."""
    tokens: Tensor
    """`[n]` how many tokens that are, of the same dtype; at least 1."""
    reference: Tensor | None = None
    """`[n]` log pi_ref(y | x), summed alike, no gradient; None unless the objective needs `ref_logprobs`."""
    prepared: Mapping[str, Tensor] = field(default_factory=dict)
    """What the objective computed for the step of these rows, by its names: `[n]` each, no gradient."""
    old: Tensor | None = None
    """`[n]` log-probs under the policy before the first step on a rollout, summed alike, no gradient; None of given completions."""

    @classmethod
    def of(cls, rows: TrainingBatch, output: PolicyOutput) -> Likelihood:
        """Of the completions of a rollout, summed over all tokens that the policy has sampled, those that carry no loss included."""
        mask, reference = rows.response_mask, rows.ref_logprobs
        return cls(
            row_sum(output.logprobs, mask),
            mask.sum(1).clamp(min=1).to(output.logprobs),
            None if reference is None else row_sum(reference, mask),
            {name: value for name, value in rows.extras.items() if value.dim() == 1},
            row_sum(rows.old_logprobs, mask),
        )

    @property
    def mean_logprob(self) -> Tensor:
        """`[n]` log pi(y | x) / |y|."""
        return self.logprob / self.tokens

    @property
    def log_ratio(self) -> Tensor:
        """`[n]` log pi(y | x) - log pi_ref(y | x); a RuntimeError unless the objective says that it needs `ref_logprobs`."""
        if self.reference is None:
            raise RuntimeError("there are no log-probs of a reference: an objective that uses them has 'ref_logprobs' among its needs")
        return self.logprob - self.reference

    def select(self, rows: Tensor) -> Likelihood:
        """These rows, in this order."""
        reference, old = (None if value is None else value[rows] for value in (self.reference, self.old))
        prepared = {name: value[rows] for name, value in self.prepared.items()}
        return Likelihood(self.logprob[rows], self.tokens[rows], reference, prepared, old)


class Objective(Part):
    """Turns what the policy says of given completions into a loss per row, which the core averages over the step and all ranks."""

    needs_step: bool = False
    """`from_step` is called before each step, which costs another forward pass of its rows."""

    @abstractmethod
    def reward(self, completions: Likelihood) -> Tensor:
        """`[n]` the implicit reward: what the objective raises for good completions and lowers for bad ones; logged as `rewards/...`."""


class PairObjective(Objective):
    """Learns from a better and a worse completion of each prompt."""

    def from_step(self, chosen: Likelihood, rejected: Likelihood) -> dict[str, Tensor]:
        """Numbers for `loss`, once from all pairs of a step on all ranks, without gradient.

        Returns:
            By a name, under which `loss` finds them in `chosen.prepared`: a number for each pair, or one for all.
        """
        raise NotImplementedError(f"{type(self).__name__} says needs_step and has no from_step()")

    @abstractmethod
    def loss(self, chosen: Likelihood, rejected: Likelihood) -> Tensor | WithStatistics:
        """`[n]` to be minimised, of better and worse completions of n prompts; a pair depends on others through `chosen.prepared` alone."""


class LabelledObjective(Objective):
    """Learns from completions that are good or bad, each on its own."""

    needs_mismatched: bool = False
    """`from_mismatched` is called before each step, which costs a forward pass of as many rows."""

    def from_step(self, completions: Likelihood, good: Tensor) -> dict[str, Tensor]:
        """As `PairObjective.from_step`, of all completions of a step and, `[N]` bool, which are good; for `completions.prepared`."""
        raise NotImplementedError(f"{type(self).__name__} says needs_step and has no from_step()")

    def from_mismatched(self, mismatched: Likelihood) -> dict[str, Tensor]:
        """The same from the completions of the next prompt for every prompt of the step, of all ranks: one number for all."""
        raise NotImplementedError(f"{type(self).__name__} says needs_mismatched and has no from_mismatched()")

    @abstractmethod
    def loss(self, completions: Likelihood, good: Tensor) -> Tensor | WithStatistics:
        """`[n]` to be minimised, of n completions, `[n]` good or not; one depends on others through `completions.prepared` alone."""


class ChosenLikelihood(PairObjective):
    """Imitates the better completion, for use beside another objective.

    loss = -log pi(y+ | x) / |y+|.

    Source: Pang et al. 2024 (iterative reasoning preference optimisation), arXiv:2404.19733, the NLL term beside DPO's.
    """

    def reward(self, completions: Likelihood) -> Tensor:
        return completions.mean_logprob

    def loss(self, chosen: Likelihood, rejected: Likelihood) -> Tensor:
        return -chosen.mean_logprob
