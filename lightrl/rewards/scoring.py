"""A rollout on its way through all rewards: the order in which they are asked, and the outcome of every row."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import fields

import torch
from torch import Tensor

from lightrl.rewards.guarded_reward import GuardedReward, PendingScores
from lightrl.rewards.reward_scores import RewardScores, filled_in
from lightrl.types import Outcome, Rollout, ScoredRollout, Statistic, Statistics

log = logging.getLogger(__name__)

FAILED = (Outcome.ERROR, Outcome.TIMEOUT)
ANSWERED = (Outcome.VALUE, Outcome.GATED)
SILENT = (
    "reward %r has abstained on each of its first %d rows, so that it counts in none: a function without `return` gives None. "
    "rewards/%s/abstained says whether it goes on"
)
COUNTED = {"failed": FAILED, "timeout": (Outcome.TIMEOUT,), "abstained": (Outcome.ABSTAINED,), "gated": (Outcome.GATED,)}
"""Shares of rows that are reported, by their outcomes."""


class Scoring:
    """A rollout that is being scored."""

    def __init__(
        self,
        guarded: Mapping[str, GuardedReward],
        stages: list[list[str]],
        weights: Mapping[str, float],
        rollout: Rollout,
        needed: bool = True,
    ) -> None:
        """
        Args:
            stages: their names, gates before what they open.
            needed: a row needs the answer of a reward with a weight.
        """
        self._needed = needed
        self._guarded, self._stages, self._weights, self._whole = guarded, stages, weights, rollout
        failed = [i for i, episode in enumerate(rollout.episodes) if episode.failure is not None]
        # nothing can be said of a row whose environment has failed
        self._asked = torch.tensor(sorted(set(range(len(rollout))) - set(failed)), dtype=torch.long, device=rollout.group.device)
        self._rollout = rollout.select(self._asked) if failed else rollout
        self._pending: dict[str, PendingScores] = {}
        self._results: dict[str, RewardScores] = {}
        self._submit(stages[0] if stages else [])

    def result(self) -> ScoredRollout:
        """The rollout with each reward's raw values and outcomes.

        A row is scorable if every reward with a weight answered or abstained, and at least one answered where one is needed.
        `warn` tells of those that failed.

        Raises:
            ValueError: a reward returned something of the wrong type or shape.
            RuntimeError: a reward cannot be loaded in its worker process.
        """
        for stage in self._stages:
            self._submit([name for name in stage if name not in self._pending])
            self._results |= {name: self._pending[name].result() for name in stage}
        results = {name: self._of_all_rows(self._results[name]) for name in self._guarded}
        weighted = [results[name].outcome for name, weight in self._weights.items() if weight != 0]
        nothing = torch.zeros(len(self._whole), dtype=torch.bool, device=self._whole.group.device)
        unneeded = nothing if self._needed else nothing.index_fill(0, self._asked, True)
        answered = torch.stack([unneeded, *(_is(outcome, ANSWERED) for outcome in weighted)]).any(0)
        failed = torch.stack([nothing, *(_is(outcome, FAILED) for outcome in weighted)]).any(0)
        return ScoredRollout(
            **{f.name: getattr(self._whole, f.name) for f in fields(Rollout)},
            reward_parts={name: result.part for name, result in results.items()},
            outcomes={name: result.outcome for name, result in results.items()},
            scorable=answered & ~failed,
        )

    def _of_all_rows(self, own: RewardScores) -> RewardScores:
        rows = len(self._whole)
        if len(self._asked) == rows:
            return own
        device = self._whole.group.device
        nothing = torch.full((rows,), math.nan, device=device)
        abstained = torch.full((rows,), int(Outcome.ABSTAINED), device=device)
        return filled_in(own, self._asked, RewardScores(nothing, abstained, [None] * rows), self._whole.response_mask)

    @property
    def failures(self) -> dict[str, list[str | None]]:
        """Per reward, why each row failed, if it did; after `result`."""
        return {name: self._results[name].failures for name in self._guarded}

    @property
    def seconds(self) -> dict[str, float]:
        """Per reward, the seconds that the run waited for it, beyond those for the rewards before it; after `result`."""
        return {name: self._pending[name].waited for name in self._guarded}

    @property
    def cached(self) -> dict[str, int]:
        """Per reward, the number of scores that were remembered; after `result`."""
        return {name: self._pending[name].cached for name in self._guarded}

    def statistics(self) -> Statistics:
        """The outcomes of all rows, also of those that a sampler will drop; after `result`.

        Each `rewards/{name}/...` is a share of all rows: `failed` (time-outs included), `timeout`, `abstained`, `gated`, `cached`. Beside
        them `seconds`, which the run waited for that reward beyond those before it, and the numbers that the reward itself counts.
        """
        numbers: dict[str, Tensor | Statistic] = {}
        for name, result in self._results.items():
            for what, kinds in COUNTED.items():
                numbers[f"rewards/{name}/{what}"] = _is(result.outcome, kinds).float()
            pending = self._pending[name]
            rows = len(result.outcome)
            numbers[f"rewards/{name}/cached"] = torch.full((rows,), pending.cached / max(rows, 1))
            numbers[f"rewards/{name}/seconds"] = Statistic(torch.tensor([pending.waited]), "sum")
            for what, count in self._guarded[name].counts().items():
                numbers[f"rewards/{name}/{what}"] = Statistic(torch.tensor([count]), "sum")
            numbers |= {f"rewards/{name}/{what}": statistic for what, statistic in result.statistics.items()}
        return numbers

    def _submit(self, names: list[str]) -> None:
        # those that work elsewhere begin first
        for name in sorted(names, key=lambda name: self._guarded[name].reward.runs == "inline"):
            gate = self._guarded[name].reward.gate
            self._pending[name] = PendingScores(self._guarded[name], self._rollout, None if gate is None else self._results[gate])

    def warn(self) -> None:
        """Log one line for each reward that has failed, and, once, for one that has said nothing so far; after `result`."""
        for name, guarded in self._guarded.items():
            if failures := [failure for failure in self.failures[name] if failure is not None]:
                log.warning("reward %r failed on %d of %d rows; first: %s", name, len(failures), len(self._rollout), failures[0])
            guarded.silent = guarded.silent and bool(_is(self._results[name].outcome, (Outcome.ABSTAINED,)).all())
            if guarded.silent and not guarded.silence_told and self._weights[name] != 0:
                log.warning(SILENT, name, len(self._rollout), name)
                guarded.silence_told = True


def _is(outcome: Tensor, kinds: tuple[Outcome, ...]) -> Tensor:
    return torch.isin(outcome, torch.tensor([int(kind) for kind in kinds], device=outcome.device))
