"""Completions with labels, encoded as the policy reads them, and the losses that an objective gives them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import torch
from torch import Tensor

from lightrl.parts.base import unpack
from lightrl.parts.objective import LabelledObjective, Likelihood
from lightrl.parts.prompts import content_hash
from lightrl.policy.policy import Policy
from lightrl.statistic import Statistics
from lightrl.training.offline.completion_passes import summed
from lightrl.training.offline.encoded_rows import EncodedRows, PromptRows, SingleRows, encode_rows, longest_row
from lightrl.training.offline.objective_batch import ObjectiveBatch, likelihood, of_all_ranks
from lightrl.training.offline.preference_columns import PreferenceColumns, labelled_text
from lightrl.types import Prompt


@dataclass(kw_only=True)
class Labelled(SingleRows, PromptRows):
    """One completion per prompt, and whether it is a good one."""

    completions: list[str]
    """N texts, without EOS."""
    mask: Tensor
    """`[N, L]` bool: the completion and its EOS."""
    good: Tensor
    """`[N]` bool."""
    reference: Tensor | None = None
    """`[N]` log-probs of the completions under the reference, if the objective needs them."""


def encode_labelled(
    policy: Policy, prompts: Sequence[Prompt], completion: str = "completion", label: str = "label", max_length: int | None = None
) -> Labelled:
    """Rows of prompt, completion and EOS, with their labels, from these columns; errors name the prompt."""
    read = [labelled_text(prompt, completion, label) for prompt in prompts]
    texts, labels = [text for text, _ in read], [good for _, good in read]
    rows = encode_rows(policy, prompts, texts, max_length)
    good = torch.tensor(labels, dtype=torch.bool)
    return Labelled(
        prompts=list(prompts),
        completions=texts,
        input_ids=rows.ids,
        mask=rows.mask,
        good=good,
        lengths=rows.lengths,
        place=torch.arange(len(texts)),
    )


class LabelledBatch(ObjectiveBatch[Labelled, LabelledObjective]):
    """Completions with labels."""

    @staticmethod
    def sequences_of(prompt: Prompt, columns: PreferenceColumns, policy: Policy) -> list[list[int]]:
        text, _ = labelled_text(prompt, columns.completion, columns.label)
        return [policy.encode_completion(prompt, text).ids]

    def encode(self, prompts: list[Prompt], columns: PreferenceColumns) -> Labelled:
        return encode_labelled(self.policy, prompts, columns.completion, columns.label, self.max_length)

    def tokens(self) -> int:
        return int(self.rows.mask.sum())

    def prepare(self) -> None:
        rows, counts = self.rows, self.adapter.gather(len(self.rows))
        rows.reference = self.passes.reference(rows.input_ids, rows.mask)
        if self.objective.needs_step:
            own = likelihood(self.passes.policy(rows.input_ids, rows.mask), rows.mask.sum(1), rows.reference)
            everyone, _ = of_all_ranks(own, self.adapter)
            self.keep(self.objective.from_step(everyone, torch.cat(self.adapter.gather(rows.good))), counts)
        if self.objective.needs_mismatched:
            self.keep(self.objective.from_mismatched(self._mismatched()), counts)

    def _mismatched(self) -> Likelihood:
        """All prompts of the step, of all ranks, with completions that were written for others."""
        rows = mismatched_rows(self.policy, self.rows.prompts, self.rows.completions, self.adapter.gather, self.max_length)
        # partners change from step to step, so these are not kept
        anchored = self.passes.reference(rows.ids, rows.mask, keep=False)
        everyone, _ = of_all_ranks(likelihood(self.passes.policy(rows.ids, rows.mask), rows.mask.sum(1), anchored), self.adapter)
        return everyone

    def losses(self, micro: Labelled) -> tuple[Tensor, Statistics]:
        return self._of(micro, summed(self.passes.tokens(micro.host.input_ids, micro.host.mask), micro.mask))

    def evaluate(self) -> tuple[Tensor, Statistics]:
        return self._of(self.rows, self.passes.policy(self.rows.input_ids, self.rows.mask))

    def _of(self, rows: Labelled, logprobs: Tensor) -> tuple[Tensor, Statistics]:
        completions = likelihood(logprobs, rows.mask.sum(1), rows.reference, self.prepared(rows.host.place, logprobs))
        per_row, statistics = unpack(self.objective.loss(completions, rows.good))
        reward, total = self.objective.reward(completions).detach(), completions.logprob.detach()
        ours = {
            "rewards/chosen": torch.where(rows.good, reward, torch.nan),
            "rewards/rejected": torch.where(rows.good, torch.nan, reward),
            "logps/chosen": torch.where(rows.good, total, torch.nan),
            "logps/rejected": torch.where(rows.good, torch.nan, total),
            "completions/length": completions.tokens,
        }
        return per_row, {**ours, **statistics}

    @staticmethod
    def with_differences(numbers: dict[str, float]) -> dict[str, float]:
        if {"rewards/chosen", "rewards/rejected"} <= numbers.keys():
            return numbers | {"rewards/margins": numbers["rewards/chosen"] - numbers["rewards/rejected"]}
        return numbers


@dataclass(frozen=True, order=True)
class PlacedRow:
    """A row in an order that does not depend on how rows are spread over ranks."""

    place: str
    """Where the row stands: a hash of the prompt's id, since repeated prompts have ids that are alike."""
    prompt: str
    """A hash of the prompt's content."""
    completion: str


def mismatched_rows(
    policy: Policy, prompts: Sequence[Prompt], completions: Sequence[str], gather: Callable[[Any], list[Any]], max_length: int | None
) -> EncodedRows:
    """Each prompt with the completion of another one; without those that have no partner, or would be too long. Collective."""
    mine = [
        PlacedRow(blake2b(p.id.encode(), digest_size=8).hexdigest(), content_hash(p), text)
        for p, text in zip(prompts, completions, strict=True)
    ]
    others = partners(mine, [row for of_rank in gather(mine) for row in of_rank])
    bound = longest_row(policy, max_length)
    found = [
        (prompt, text)
        for prompt, text in zip(prompts, others, strict=True)
        if text is not None and (bound is None or len(policy.encode_completion(prompt, text).ids) <= bound)
    ]
    return encode_rows(policy, [prompt for prompt, _ in found], [text for _, text in found], max_length)


def partners(mine: Sequence[PlacedRow], everyone: Sequence[PlacedRow]) -> list[str | None]:
    """For each row the completion of the next row, of all ranks, that has another prompt; None if all rows have the same."""
    ring = sorted(everyone)
    found: list[str | None] = []
    for row in mine:
        start = ring.index(row)
        following = (ring[(start + step) % len(ring)] for step in range(1, len(ring)))
        found.append(next((other.completion for other in following if other.prompt != row.prompt), None))
    return found
