"""The rows of one step of preference optimisation, and the losses that an objective gives them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

import torch
from torch import Tensor

from lightrl.parts.objective import Likelihood, Objective
from lightrl.policy.policy import Policy
from lightrl.rows import onto
from lightrl.statistic import Statistics
from lightrl.strategies.adapter import StrategyAdapter
from lightrl.training.offline.completion_passes import CompletionPasses
from lightrl.training.offline.encoded_rows import PromptRows
from lightrl.training.offline.preference_columns import PreferenceColumns
from lightrl.types import Prompt

R = TypeVar("R", bound=PromptRows)
O = TypeVar("O", bound=Objective)  # noqa: E741 - stands for objective


class ObjectiveBatch(ABC, Generic[R, O]):
    """Rows of this rank and their objective."""

    def __init__(
        self, passes: CompletionPasses, objective: O, prompts: list[Prompt], columns: PreferenceColumns, max_length: int | None
    ) -> None:
        self.passes, self.objective, self.max_length = passes, objective, max_length
        self.policy, self.adapter = passes.learner.policy, passes.adapter
        self.rows = self.encode(prompts, columns)
        self._prepared: dict[str, Tensor] = {}

    @staticmethod
    @abstractmethod
    def sequences_of(prompt: Prompt, columns: PreferenceColumns, policy: Policy) -> list[list[int]]:
        """The ids of each completion of one prompt, prompt included, of any length."""

    @abstractmethod
    def encode(self, prompts: list[Prompt], columns: PreferenceColumns) -> R:
        """The rows of the prompts."""

    @abstractmethod
    def tokens(self) -> int:
        """Tokens of all completions."""

    @abstractmethod
    def prepare(self) -> None:
        """Compute what has no gradient; every rank calls it."""

    @abstractmethod
    def losses(self, micro: R) -> tuple[Tensor, Statistics]:
        """`[n]` losses of a micro-batch, with statistics per row."""

    @abstractmethod
    def evaluate(self) -> tuple[Tensor, Statistics]:
        """`[N]` losses of all rows without gradient, with statistics per row; every rank calls it."""

    @staticmethod
    def with_differences(numbers: dict[str, float]) -> dict[str, float]:
        """The reduced numbers, with those added that are differences of means."""
        return numbers

    def keep(self, found: Mapping[str, Tensor], rows: Sequence[int]) -> None:
        """Keep numbers that the objective computed, one for each row of all ranks (of which each has so many), or one for all."""
        rank = self.adapter.rank
        first = sum(rows[:rank])
        for name, value in found.items():
            self._prepared[name] = value.expand(sum(rows))[first : first + rows[rank]]

    def prepared(self, place: Tensor, like: Tensor) -> dict[str, Tensor]:
        """The `[n]` values kept for the rows with these numbers (on the CPU), in the type and on the device of another tensor."""
        return {name: onto(value.to(like.dtype)[place], like.device) for name, value in self._prepared.items()}


def likelihood(logprobs: Tensor, tokens: Tensor, reference: Tensor | None, prepared: Mapping[str, Tensor] | None = None) -> Likelihood:
    """Of n completions, in the type of the policy's log-probs."""
    return Likelihood(logprobs, tokens.to(logprobs), None if reference is None else reference.to(logprobs), prepared or {})


def of_all_ranks(own: Likelihood, adapter: StrategyAdapter) -> tuple[Likelihood, list[int]]:
    """The completions of all ranks, in the order of ranks, and how many each has; every rank calls it."""
    logprobs, tokens, references = zip(*adapter.gather((own.logprob, own.tokens, own.reference)), strict=True)
    everyone = None if own.reference is None else torch.cat(references)
    return Likelihood(torch.cat(logprobs), torch.cat(tokens), everyone), [len(share) for share in logprobs]
