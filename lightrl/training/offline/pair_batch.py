"""Pairs of completions: encoded as the policy reads them, and the losses that an objective gives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lightrl.parts.base import unpack
from lightrl.parts.objective import Likelihood, PairObjective
from lightrl.policy.policy import Policy
from lightrl.rows import Sequences, last_position
from lightrl.statistic import Statistics
from lightrl.training.offline.completion_passes import summed
from lightrl.training.offline.encoded_rows import PromptRows, encode_rows
from lightrl.training.offline.objective_batch import ObjectiveBatch, likelihood, of_all_ranks
from lightrl.training.offline.preference_columns import PreferenceColumns, paired_texts
from lightrl.types import Prompt


@dataclass(kw_only=True)
class Pairs(PromptRows):
    """A better and a worse completion of each prompt, L being the longest of all rows."""

    chosen_ids: Tensor
    """`[N, L]` int64: prompt, better completion and EOS, padded on the right."""
    chosen_mask: Tensor
    """`[N, L]` bool: the completion and its EOS."""
    rejected_ids: Tensor
    """`[N, L]` int64: prompt, worse completion and EOS, padded on the right."""
    rejected_mask: Tensor
    """`[N, L]` bool: the completion and its EOS."""
    chosen_reference: Tensor | None = None
    """`[N]` log-probs of the better completions under a reference, where one is needed."""
    rejected_reference: Tensor | None = None
    """`[N]` log-probs of the worse completions under it."""

    def sequences(self) -> Sequences:
        """Two for each row: the better completion and the worse one."""
        ids, mask = self.stacked()
        return Sequences(ids, last_position(mask) + 1, torch.arange(len(self)).repeat(2))

    def stacked(self) -> tuple[Tensor, Tensor]:
        """Ids and masks `[2 N, L]`, all chosen rows before all rejected ones, so that one forward pass sees both."""
        return torch.cat([self.chosen_ids, self.rejected_ids]), torch.cat([self.chosen_mask, self.rejected_mask])


def encode_pairs(
    policy: Policy, prompts: Sequence[Prompt], chosen: str = "chosen", rejected: str = "rejected", max_length: int | None = None
) -> Pairs:
    """Rows of prompt, completion and EOS for both completions of every prompt, from these columns; errors name the prompt."""
    read = [paired_texts(prompt, chosen, rejected) for prompt in prompts]
    asked, texts = [prompt for prompt, _, _ in read], [text for _, *both in read for text in both]
    rows = encode_rows(policy, [prompt for prompt in asked for _ in range(2)], texts, max_length)
    return Pairs(
        prompts=asked,
        chosen_ids=rows.ids[::2],
        chosen_mask=rows.mask[::2],
        rejected_ids=rows.ids[1::2],
        rejected_mask=rows.mask[1::2],
        lengths=rows.lengths.view(-1, 2).amax(1),
        place=torch.arange(len(asked)),
    )


class PairBatch(ObjectiveBatch[Pairs, PairObjective]):
    """Pairs of completions."""

    @staticmethod
    def sequences_of(prompt: Prompt, columns: PreferenceColumns, policy: Policy) -> list[list[int]]:
        asked, *both = paired_texts(prompt, columns.chosen, columns.rejected)
        return [policy.encode_completion(asked, text).ids for text in both]

    def encode(self, prompts: list[Prompt], columns: PreferenceColumns) -> Pairs:
        return encode_pairs(self.policy, prompts, columns.chosen, columns.rejected, self.max_length)

    def tokens(self) -> int:
        return int(self.rows.stacked()[1].sum())

    def prepare(self) -> None:
        ids, mask = self.rows.stacked()
        if (anchored := self.passes.reference(ids, mask)) is not None:
            self.rows.chosen_reference, self.rows.rejected_reference = anchored.chunk(2)
        if self.objective.needs_step:
            both = [of_all_ranks(side, self.adapter) for side in self._sides(self.rows, self.passes.policy(ids, mask), mask)]
            (chosen, counts), (rejected, _) = both
            self.keep(self.objective.from_step(chosen, rejected), counts)

    def losses(self, micro: Pairs) -> tuple[Tensor, Statistics]:
        mask = micro.stacked()[1]
        return self._of(micro, summed(self.passes.tokens(*micro.host.stacked()), mask), mask)

    def evaluate(self) -> tuple[Tensor, Statistics]:
        ids, mask = self.rows.stacked()
        return self._of(self.rows, self.passes.policy(ids, mask), mask)

    def _sides(self, rows: Pairs, logprobs: Tensor, mask: Tensor) -> tuple[Likelihood, Likelihood]:
        """The better completions and the worse ones."""
        totals, tokens, prepared = logprobs.chunk(2), mask.sum(1).chunk(2), self.prepared(rows.host.place, logprobs)
        chosen = likelihood(totals[0], tokens[0], rows.chosen_reference, prepared)
        return chosen, likelihood(totals[1], tokens[1], rows.rejected_reference, prepared)

    def _of(self, rows: Pairs, logprobs: Tensor, mask: Tensor) -> tuple[Tensor, Statistics]:
        chosen, rejected = self._sides(rows, logprobs, mask)
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
        return per_pair, {**ours, **statistics}
