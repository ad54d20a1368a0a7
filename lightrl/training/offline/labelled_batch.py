"""Completions with labels and the losses that an objective gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lightrl.parts.base import unpack
from lightrl.parts.objective import LabelledObjective
from lightrl.policy.policy import Policy
from lightrl.statistic import Statistics
from lightrl.training.offline.labelled import Labelled, encode_labelled
from lightrl.training.offline.mismatched import mismatched_rows
from lightrl.training.offline.objective_batch import ObjectiveBatch, PolicyLogProbs, ReferenceLogProbs, likelihood
from lightrl.training.offline.preference_columns import PreferenceColumns, labelled_text
from lightrl.training.offline.sequence_logprobs import TokenLogProbs, summed
from lightrl.types import Prompt


class LabelledBatch(ObjectiveBatch[Labelled, LabelledObjective]):
    """Completions with labels."""

    @staticmethod
    def sequences_of(prompt: Prompt, columns: PreferenceColumns, policy: Policy) -> list[list[int]]:
        text, _ = labelled_text(prompt, columns.completion, columns.label)
        return [policy.encode_completion(prompt, text).ids]

    def encode(self, prompts: list[Prompt], columns: PreferenceColumns) -> Labelled:
        return encode_labelled(self.policy, prompts, columns.completion, columns.label, self.max_length)

    @property
    def prompts(self) -> list[Prompt]:
        return self.rows.prompts

    def tokens(self) -> int:
        return int(self.rows.mask.sum())

    def prepare(self, policy: PolicyLogProbs, reference: ReferenceLogProbs | None, gather: Callable[[Any], list[Any]]) -> None:
        if reference is not None:
            self.rows.reference = reference(self.rows.input_ids, self.rows.mask)
        self._prepared = self._baseline(policy, reference, gather) if self.objective.needs_mismatched else {}

    def _baseline(
        self, policy: PolicyLogProbs, reference: ReferenceLogProbs | None, gather: Callable[[Any], list[Any]]
    ) -> dict[str, Tensor]:
        """The objective's view of all prompts of the step, of all ranks, with completions that were written for others."""
        rows = mismatched_rows(self.policy, self.rows.prompts, self.rows.completions, gather, self.max_length)
        logprobs = policy(rows.ids, rows.mask)
        # partners change from step to step, so these are not kept
        anchored = reference(rows.ids, rows.mask, keep=False) if reference is not None else None
        shares = gather((logprobs, rows.mask.sum(1), anchored))
        totals, tokens, references = zip(*shares, strict=True)
        everyone = None if anchored is None else torch.cat(references)
        return self.objective.prepare(likelihood(torch.cat(totals), torch.cat(tokens), everyone))

    def losses(self, micro: Labelled, token_logprobs: TokenLogProbs) -> tuple[Tensor, Statistics]:
        return self._of(micro, summed(token_logprobs(micro.input_ids, micro.mask), micro.mask))

    def evaluate(self, policy: PolicyLogProbs) -> tuple[Tensor, Statistics]:
        return self._of(self.rows, policy(self.rows.input_ids, self.rows.mask))

    def _of(self, rows: Labelled, logprobs: Tensor) -> tuple[Tensor, Statistics]:
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
        return per_row, {**ours, **statistics}

    @staticmethod
    def with_differences(numbers: dict[str, float]) -> dict[str, float]:
        if {"rewards/chosen", "rewards/rejected"} <= numbers.keys():
            return numbers | {"rewards/margins": numbers["rewards/chosen"] - numbers["rewards/rejected"]}
        return numbers
