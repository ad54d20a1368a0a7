"""The rows of one offline step, and what an objective makes of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from lightrl.data.content import content_hash
from lightrl.parts.base import unpack
from lightrl.parts.objective import LabelledObjective, Likelihood, Objective, PairObjective
from lightrl.policy.policy import Policy
from lightrl.training.offline.labelled import Labelled, encode_labelled, mismatched
from lightrl.training.offline.pairs import Pairs, encode_completion, encode_pairs
from lightrl.training.offline.preference_columns import labelled_text, paired_texts
from lightrl.training.offline.sequence_logprobs import TokenLogProbs, summed
from lightrl.types import Prompt, Rows, WithStatistics

R = TypeVar("R", bound=Rows)
O = TypeVar("O", bound=Objective)  # noqa: E741 - what it stands for

Sums = Callable[..., Tensor]
"""Gives the `[N]` log-probs of the completions of `[N, L]` ids and masks, without gradient; every rank calls it. Of the reference
also with `keep=False`, for rows that will not come again."""


@dataclass(frozen=True)
class Columns:
    """Which columns of the data set hold what."""

    chosen: str
    """The better completion of a pair."""
    rejected: str
    """The worse one."""
    completion: str
    """A completion with a label."""
    label: str
    """Whether it is good."""


class OfflineBatch(ABC, Generic[R, O]):
    """Rows of this rank and their objective."""

    sequences: int
    """Rows of tokens in one row of the batch."""

    def __init__(self, policy: Policy, objective: O, prompts: list[Prompt], columns: Columns, max_length: int | None) -> None:
        """
        Args:
            policy: that is trained.
            objective: what the rows teach.
            prompts: of this rank; may be none.
            columns: which hold the completions.
            max_length: most tokens of a row; None: as many as the policy takes.
        """
        self.policy, self.objective, self.max_length = policy, objective, max_length
        self.rows = self.encode(prompts, columns)

    @staticmethod
    @abstractmethod
    def texts(prompt: Prompt, columns: Columns, policy: Policy) -> list[list[int]]:
        """The ids of each completion of one prompt, prompt included, of any length."""

    @abstractmethod
    def encode(self, prompts: list[Prompt], columns: Columns) -> R:
        """The rows of the prompts."""

    @abstractmethod
    def tokens(self) -> int:
        """Tokens of all completions."""

    @abstractmethod
    def look_ahead(self, sums: Sums, reference: Sums | None, gather: Callable[[Any], list[Any]]) -> None:
        """Compute what has no gradient; every rank calls it.

        Args:
            sums: of the policy as it is.
            reference: of the reference; None: nothing needs it.
            gather: gives what every rank passed to it.
        """

    @abstractmethod
    def loss(self, micro: R, token_logprobs: TokenLogProbs) -> Any:
        """`[n]` losses of a micro-batch, with statistics per row."""

    @abstractmethod
    def judge(self, sums: Sums) -> Any:
        """`[N]` losses of all rows without gradient, with statistics per row; every rank calls it."""

    @staticmethod
    def with_differences(numbers: dict[str, float]) -> dict[str, float]:
        """The reduced numbers, with those added that are differences of means."""
        return numbers


class PairBatch(OfflineBatch[Pairs, PairObjective]):
    """Pairs of completions."""

    sequences = 2

    @staticmethod
    def texts(prompt: Prompt, columns: Columns, policy: Policy) -> list[list[int]]:
        asked, *both = paired_texts(prompt, columns.chosen, columns.rejected)
        return [encode_completion(policy, asked, text)[0] for text in both]

    def encode(self, prompts: list[Prompt], columns: Columns) -> Pairs:
        return encode_pairs(self.policy, prompts, columns.chosen, columns.rejected, self.max_length)

    def tokens(self) -> int:
        return int(self.rows.stacked()[1].sum())

    def look_ahead(self, sums: Sums, reference: Sums | None, gather: Callable[[Any], list[Any]]) -> None:
        if reference is not None:
            self.rows.chosen_reference, self.rows.rejected_reference = reference(*self.rows.stacked()).chunk(2)

    def loss(self, micro: Pairs, token_logprobs: TokenLogProbs) -> Any:
        ids, mask = micro.stacked()
        return self._of(micro, summed(token_logprobs(ids, mask), mask), mask)

    def judge(self, sums: Sums) -> Any:
        ids, mask = self.rows.stacked()
        return self._of(self.rows, sums(ids, mask), mask)

    def _of(self, rows: Pairs, logprobs: Tensor, mask: Tensor) -> Any:
        references = (rows.chosen_reference, rows.rejected_reference)
        totals, tokens = logprobs.chunk(2), mask.sum(1).chunk(2)
        chosen, rejected = (likelihood(*one) for one in zip(totals, tokens, references, strict=True))
        per_pair, statistics = unpack(self.objective.loss(chosen, rejected))
        better, worse = (self.objective.reward(each).detach() for each in (chosen, rejected))
        ours = {
            "rewards/chosen": better,
            "rewards/rejected": worse,
            "rewards/margins": better - worse,
            # a tie is neither right nor wrong
            "rewards/accuracies": (better > worse).double() + 0.5 * (better == worse).double(),
            "logps/chosen": chosen.logprob.detach(),
            "logps/rejected": rejected.logprob.detach(),
            "completions/chosen_length": chosen.tokens,
            "completions/rejected_length": rejected.tokens,
        }
        return WithStatistics(per_pair, {**ours, **statistics})


class LabelledBatch(OfflineBatch[Labelled, LabelledObjective]):
    """Completions with labels."""

    sequences = 1

    @staticmethod
    def texts(prompt: Prompt, columns: Columns, policy: Policy) -> list[list[int]]:
        text, _ = labelled_text(prompt, columns.completion, columns.label)
        return [encode_completion(policy, prompt, text)[0]]

    def encode(self, prompts: list[Prompt], columns: Columns) -> Labelled:
        return encode_labelled(self.policy, prompts, columns.completion, columns.label, self.max_length)

    def tokens(self) -> int:
        return int(self.rows.mask.sum())

    def look_ahead(self, sums: Sums, reference: Sums | None, gather: Callable[[Any], list[Any]]) -> None:
        if reference is not None:
            self.rows.reference = reference(self.rows.input_ids, self.rows.mask)
        self._prepared = self._prepare(sums, reference, gather) if self.objective.needs_mismatched else {}

    def _prepare(self, sums: Sums, reference: Sums | None, gather: Callable[[Any], list[Any]]) -> dict[str, Tensor]:
        """What the objective makes of all prompts of the step, of all ranks, with completions that were written for others."""
        mine = [(_place(p.id), content_hash(p), text) for p, text in zip(self.rows.prompts, self.rows.completions, strict=True)]
        others = partners(mine, [row for of_rank in gather(mine) for row in of_rank])
        found = [(prompt, text) for prompt, text in zip(self.rows.prompts, others, strict=True) if text is not None]
        rows = mismatched(self.policy, [prompt for prompt, _ in found], [text for _, text in found], self.max_length)
        logprobs = sums(rows.input_ids, rows.mask)
        # partners change from step to step, so these are not kept
        anchored = reference(rows.input_ids, rows.mask, keep=False) if reference is not None else None
        shares = gather((logprobs, rows.mask.sum(1), anchored))
        totals, tokens, references = zip(*shares, strict=True)
        everyone = None if anchored is None else torch.cat(references)
        return self.objective.prepare(likelihood(torch.cat(totals), torch.cat(tokens), everyone))

    def loss(self, micro: Labelled, token_logprobs: TokenLogProbs) -> Any:
        return self._of(micro, summed(token_logprobs(micro.input_ids, micro.mask), micro.mask))

    def judge(self, sums: Sums) -> Any:
        return self._of(self.rows, sums(self.rows.input_ids, self.rows.mask))

    def _of(self, rows: Labelled, logprobs: Tensor) -> Any:
        completions = likelihood(logprobs, rows.mask.sum(1), rows.reference)
        prepared = {name: value.to(logprobs) for name, value in self._prepared.items()}
        per_row, statistics = unpack(self.objective.loss(completions, rows.good, prepared))
        reward, total = self.objective.reward(completions).detach(), completions.logprob.detach()
        ours = {
            "rewards/chosen": torch.where(rows.good, reward, torch.nan),
            "rewards/rejected": torch.where(rows.good, torch.nan, reward),
            "logps/chosen": torch.where(rows.good, total, torch.nan),
            "logps/rejected": torch.where(rows.good, torch.nan, total),
            "completions/length": completions.tokens,
        }
        return WithStatistics(per_row, {**ours, **statistics})

    @staticmethod
    def with_differences(numbers: dict[str, float]) -> dict[str, float]:
        if {"rewards/chosen", "rewards/rejected"} <= numbers.keys():
            return numbers | {"rewards/margins": numbers["rewards/chosen"] - numbers["rewards/rejected"]}
        return numbers


def partners(mine: list[tuple[str, str, str]], everyone: list[tuple[str, str, str]]) -> list[str | None]:
    """For each row the completion of the next row that has another prompt; None if all rows have the same.

    Args:
        mine: place in the order, prompt and completion of each row of this rank; the order does not know of ranks.
        everyone: of all ranks.
    """
    ring = sorted(everyone)
    found: list[str | None] = []
    for row in mine:
        start = ring.index(row)
        following = (ring[(start + step) % len(ring)] for step in range(1, len(ring)))
        found.append(next((completion for _, prompt, completion in following if prompt != row[1]), None))
    return found


def _place(name: str) -> str:
    """Where a prompt stands in an order that has nothing to do with its name: repeated prompts have names that are alike."""
    return blake2b(name.encode(), digest_size=8).hexdigest()


def likelihood(logprobs: Tensor, tokens: Tensor, reference: Tensor | None) -> Likelihood:
    """Of n completions, in the type of the policy's log-probs."""
    return Likelihood(logprobs, tokens.to(logprobs), None if reference is None else reference.to(logprobs))
