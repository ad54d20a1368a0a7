"""Objectives: what does an offline batch teach?"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from lightrl.parts.base import Part
from lightrl.statistic import WithStatistics


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

    @property
    def mean_logprob(self) -> Tensor:
        """`[n]` log pi(y | x) / |y|."""
        return self.logprob / self.tokens

    @property
    def log_ratio(self) -> Tensor:
        """`[n]` log pi(y | x) - log pi_ref(y | x).

        Raises:
            RuntimeError: there is no reference: the objective does not say that it needs `ref_logprobs`.
        """
        if self.reference is None:
            raise RuntimeError("there are no log-probs of a reference: an objective that uses them has 'ref_logprobs' among its needs")
        return self.logprob - self.reference

    def select(self, rows: Tensor) -> Likelihood:
        """These rows, in this order."""
        reference = None if self.reference is None else self.reference[rows]
        prepared = {name: value[rows] for name, value in self.prepared.items()}
        return Likelihood(self.logprob[rows], self.tokens[rows], reference, prepared)


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
        """Numbers of one optimizer step for `loss`, computed once, without gradient.

        Args:
            chosen: the better completions of all pairs of the step, of all ranks.
            rejected: the worse ones.

        Returns:
            By a name, under which `loss` finds them in `chosen.prepared`: a number for each pair, or one for all.
        """
        raise NotImplementedError(f"{type(self).__name__} says needs_step and has no from_step()")

    @abstractmethod
    def loss(self, chosen: Likelihood, rejected: Likelihood) -> Tensor | WithStatistics:
        """`[n]` to be minimised, one value per pair, which depends on no other pair but through `chosen.prepared`.

        Args:
            chosen: the better completions of n prompts.
            rejected: the worse ones of the same prompts.
        """


class LabelledObjective(Objective):
    """Learns from completions that are good or bad, each on its own."""

    needs_mismatched: bool = False
    """`from_mismatched` is called before each step, which costs a forward pass of as many rows."""

    def from_step(self, completions: Likelihood, good: Tensor) -> dict[str, Tensor]:
        """Numbers of one optimizer step for `loss`, computed once, without gradient.

        Args:
            completions: of all prompts of the step, of all ranks.
            good: `[N]` bool.

        Returns:
            By a name, under which `loss` finds them in `completions.prepared`: a number for each completion, or one for all.
        """
        raise NotImplementedError(f"{type(self).__name__} says needs_step and has no from_step()")

    def from_mismatched(self, mismatched: Likelihood) -> dict[str, Tensor]:
        """The same from completions that were written for other prompts: one number for all.

        Args:
            mismatched: of every prompt of the step and of all ranks, with the completion of the next prompt.
        """
        raise NotImplementedError(f"{type(self).__name__} says needs_mismatched and has no from_mismatched()")

    @abstractmethod
    def loss(self, completions: Likelihood, good: Tensor) -> Tensor | WithStatistics:
        """`[n]` to be minimised, one value per completion, which depends on no other row but through `completions.prepared`.

        Args:
            completions: of n prompts.
            good: `[n]` bool.
        """


class ChosenLikelihood(PairObjective):
    """Imitates the better completion, for use beside another objective.

    loss = -log pi(y+ | x) / |y+|.

    Source: Pang et al. 2024 (iterative reasoning preference optimisation), arXiv:2404.19733, the NLL term beside DPO's.
    """

    def reward(self, completions: Likelihood) -> Tensor:
        return completions.mean_logprob

    def loss(self, chosen: Likelihood, rejected: Likelihood) -> Tensor:
        return -chosen.mean_logprob
