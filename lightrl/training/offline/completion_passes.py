"""Log-probs of whole completions in micro-batches: under the policy, and under its reference, whose log-probs a cache may know."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from lightrl.ops.batching import split_to
from lightrl.parts.reference import Reference
from lightrl.rows import Sequences, last_position
from lightrl.training.offline.reference_cache import ReferenceCache, row_keys
from lightrl.training.reports.statistics import StatisticsLedger
from lightrl.training.steps.learner import Learner


def summed(logprobs: Tensor, mask: Tensor) -> Tensor:
    """`[n]` sums over the chosen tokens of `[n, L]` log-probs, in float32 or better."""
    exact = logprobs.to(torch.promote_types(logprobs.dtype, torch.float32))
    return torch.where(mask, exact, torch.zeros_like(exact)).sum(1)


class CompletionPasses:
    """Forward passes over completions, under the policy that is trained and under its reference.

    Rows of ids `[N, L]` are on the CPU and end with the last token of their completion, which `[N, L]` masks choose; N may be 0.
    """

    def __init__(self, learner: Learner, reference: Reference | None, cache: ReferenceCache | None, ledger: StatisticsLedger) -> None:
        """The cache gets those log-probs of the reference that it does not know, of all ranks; the ledger the share that it knew."""
        self.learner, self.adapter = learner, learner.adapter
        self._reference, self._cache, self._ledger = reference, cache, ledger

    def tokens(self, input_ids: Tensor, mask: Tensor) -> Tensor:
        """`[n, l]` log-probs of the chosen tokens under the policy, with gradient."""
        logprobs: Tensor = self.learner.policy(input_ids, mask).logprobs
        return logprobs

    def policy(self, input_ids: Tensor, mask: Tensor) -> Tensor:
        """`[N]` float64 log-probs of the completions under the policy, without gradient; every rank calls it."""
        return self._of_completions(self.tokens, input_ids, mask)

    def reference(self, input_ids: Tensor, mask: Tensor, keep: bool = True) -> Tensor | None:
        """`[N]` float64 log-probs of the completions under the reference, None without one; every rank calls it.

        Args:
            keep: the cache may know them; False for rows that will not come again.
        """
        if self._reference is None:
            return None
        if self._cache is None or not keep:
            return self._computed(self._reference, input_ids, mask)
        keys = row_keys(input_ids, mask)
        known = self._cache.get(keys)
        missing = torch.tensor([i for i, value in enumerate(known) if value is None], dtype=torch.long)
        found = torch.tensor([math.nan if value is None else value for value in known], dtype=torch.float64)
        # every rank takes part, since some may have rows that are missing
        if self.adapter.largest(len(missing)):
            found[missing] = self._computed(self._reference, input_ids[missing], mask[missing])
            # the next epoch gives a row to another rank
            for of_rank in self.adapter.gather([(keys[i], float(found[i])) for i in missing.tolist()]):
                self._cache.put(of_rank)
        self._ledger.add("reference/cached", torch.tensor([float(value is not None) for value in known]))
        return found

    def _computed(self, reference: Reference, input_ids: Tensor, mask: Tensor) -> Tensor:
        policy = self.learner.policy
        with reference.at_hand(policy):
            return self._of_completions(partial(reference.logprobs, policy), input_ids, mask)

    @torch.no_grad()
    def _of_completions(self, token_logprobs: Callable[[Tensor, Tensor], Tensor], input_ids: Tensor, mask: Tensor) -> Tensor:
        """`[N]` float64; all ranks make as many passes, since a strategy that shards weights gathers them in each."""
        found = torch.zeros(len(input_ids), dtype=torch.float64)
        lengths = last_position(mask) + 1
        cuts = self.learner.fitting.cut(Sequences(input_ids, lengths, torch.arange(len(lengths))))
        for rows in split_to(cuts, self.adapter.largest(len(cuts))):
            if not len(rows):
                # a rank without rows takes part with one of its own making
                token_logprobs(torch.zeros(1, 2, dtype=torch.long), torch.tensor([[False, True]]))
                continue
            width = int(lengths[rows].max())
            chosen = mask[rows, :width]
            found[rows] = summed(token_logprobs(input_ids[rows, :width], chosen).cpu(), chosen).double()
        return found
