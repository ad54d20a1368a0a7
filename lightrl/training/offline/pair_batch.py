"""Pairs of completions and the losses that an objective gives them."""

from __future__ import annotations

from torch import Tensor

from lightrl.parts.base import unpack
from lightrl.parts.objective import Likelihood, PairObjective
from lightrl.policy.policy import Policy
from lightrl.statistic import Statistics
from lightrl.strategies.adapter import StrategyAdapter
from lightrl.training.offline.objective_batch import ObjectiveBatch, PolicyLogProbs, ReferenceLogProbs, likelihood, of_all_ranks
from lightrl.training.offline.pairs import Pairs, encode_pairs
from lightrl.training.offline.preference_columns import PreferenceColumns, paired_texts
from lightrl.training.offline.sequence_logprobs import TokenLogProbs, summed
from lightrl.types import Prompt


class PairBatch(ObjectiveBatch[Pairs, PairObjective]):
    """Pairs of completions."""

    @staticmethod
    def sequences_of(prompt: Prompt, columns: PreferenceColumns, policy: Policy) -> list[list[int]]:
        asked, *both = paired_texts(prompt, columns.chosen, columns.rejected)
        return [policy.encode_completion(asked, text).ids for text in both]

    def encode(self, prompts: list[Prompt], columns: PreferenceColumns) -> Pairs:
        return encode_pairs(self.policy, prompts, columns.chosen, columns.rejected, self.max_length)

    @property
    def prompts(self) -> list[Prompt]:
        return self.rows.prompts

    def tokens(self) -> int:
        return int(self.rows.stacked()[1].sum())

    def prepare(self, policy: PolicyLogProbs, reference: ReferenceLogProbs | None, adapter: StrategyAdapter) -> None:
        ids, mask = self.rows.stacked()
        if reference is not None:
            self.rows.chosen_reference, self.rows.rejected_reference = reference(ids, mask).chunk(2)
        if self.objective.needs_step:
            both = [of_all_ranks(side, adapter) for side in self._sides(self.rows, policy(ids, mask), mask)]
            (chosen, counts), (rejected, _) = both
            self.keep(self.objective.from_step(chosen, rejected), counts, adapter.rank)

    def losses(self, micro: Pairs, token_logprobs: TokenLogProbs) -> tuple[Tensor, Statistics]:
        mask = micro.stacked()[1]
        return self._of(micro, summed(token_logprobs(*micro.host.stacked()), mask), mask)

    def evaluate(self, policy: PolicyLogProbs) -> tuple[Tensor, Statistics]:
        ids, mask = self.rows.stacked()
        return self._of(self.rows, policy(ids, mask), mask)

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
