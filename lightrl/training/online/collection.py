"""The surroundings of a sampler during a run: prompts, completions, scores, and sums over ranks."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

import torch
from torch import Tensor

from lightrl.data.prompt_data import PromptData
from lightrl.parts.sampler import Reduction
from lightrl.ranks import Ranks
from lightrl.rewards.reward_set import RewardSet
from lightrl.rewards.scoring import Scoring
from lightrl.rollout.loop import RolloutLoop
from lightrl.run_end import RunEndedError
from lightrl.training.reports.episode_report import report_episodes
from lightrl.training.reports.run_ledger import RunLedger
from lightrl.types import JSON, Prompt, Rollout, ScoredRollout

TRY_REWARDS = "Mend it and start again. `lightrl reward test` tries rewards on completions in a file, without a policy"
"""What to do about a reward that does not work at all."""


class RunCollection:
    """The `Collection` of one rollout: group numbers are unique within it, whatever the number of generate calls."""

    def __init__(
        self,
        prompts: int,
        data: PromptData,
        rollouts: RolloutLoop,
        rewards: RewardSet,
        ranks: Ranks,
        ledger: RunLedger,
    ) -> None:
        """
        Args:
            prompts: groups that this rank's batch should hold.
            data: has the training prompts.
            rollouts: with the weights to sample from.
            rewards: score the completions.
            ranks: for sums over ranks.
            ledger: receives the numbers of the sampler, and times its phases.
        """
        self.prompts, self.size, self.rank = prompts, data.size, data.rank
        self._data, self._ledger = data, ledger
        self._rollouts, self._rewards, self._ranks = rollouts, rewards, ranks
        self._groups = 0

    def draw(self, n: int) -> list[Prompt]:
        """The next n prompts of this rank."""
        return self._data.draw(self._ranks.gather(n))

    def prompt(self, name: str) -> Prompt:
        """The training prompt with this id."""
        return self._data.prompt(name)

    def gather(self, value: JSON) -> list[JSON]:
        """The value of every rank, in the order of ranks."""
        return self._ranks.gather(value)

    def rollout(self, prompts: Sequence[Prompt], n: int, temperature: float | None = None) -> Rollout:
        """n completions for each prompt."""
        sampling = None if temperature is None else replace(self._rollouts.engine.sampling, temperature=temperature)
        with self._ledger.phase("rollout"):
            rollout = self._rollouts.rollout(prompts, n, sampling)
        report_episodes(self._ledger, rollout, self._rollouts.environment)
        for name, count in self._rollouts.engine.statistics().items():
            self._ledger.add(f"engine/{name}", count, reduce="sum")
        self._stop_together(self._rollouts.spent())
        return self._numbered(rollout, len(prompts))

    def given(self, prompts: Sequence[Prompt], completions: Sequence[str]) -> Rollout:
        """Rows of completions that somebody else wrote."""
        return self._numbered(self._rollouts.given(prompts, completions), len(prompts))

    def score(self, rollout: Rollout) -> ScoredRollout:
        """The rollout with the answer of each reward."""
        return self._all_finished([self._begin(rollout)])

    def rollout_and_score(self, prompts: Sequence[Prompt], n: int, slices: int = 1) -> ScoredRollout:
        """n scored completions for each prompt; while one slice is completed, the rewards of those before are at work."""
        # samples of a prompt that was drawn twice are numbered within one call of the engine
        alone = len({prompt.id for prompt in prompts}) < len(prompts)
        size = len(prompts) if alone else -(-len(prompts) // slices)
        scorings = list[Scoring]()
        for i in range(slices):
            # every slice draws its random numbers as a part of the same call
            with self._rollouts.aside() if i < slices - 1 else nullcontext():
                scorings.append(self._begin(self.rollout(prompts[i * size : (i + 1) * size], n)))
        return self._all_finished(scorings)

    def _numbered(self, rollout: Rollout, groups: int) -> Rollout:
        rollout.group = rollout.group + self._groups
        self._groups += groups
        return rollout

    def _begin(self, rollout: Rollout) -> Scoring:
        with self._ledger.phase("reward"):
            return self._rewards.submit(rollout)

    def _all_finished(self, scorings: list[Scoring]) -> ScoredRollout:
        """Wait for the scores of all slices; a reward that fails alike on every row, on all ranks, stops them.

        Raises:
            RunEndedError: a reward's error budget is spent, or it has never worked.
        """
        scored = ScoredRollout.concat([self._finished(scoring) for scoring in scorings])
        if self.total(bool(broken := self._rewards.broken())):
            first, *others = self._ranks.gather(broken)
            for name, failure in first.items():
                if all(other.get(name) == failure for other in others):
                    raise RunEndedError(f"model.rewards.{name} failed on every row of its first rollout: {failure}\n{TRY_REWARDS}")
        for scoring in scorings:
            scoring.warn()
        return scored

    def _finished(self, scoring: Scoring) -> ScoredRollout:
        """Wait for the scores; failures beyond what a reward may have stop all ranks.

        Raises:
            RunEndedError: a reward's error budget is spent.
        """
        with self._ledger.phase("reward"):
            scored = scoring.result()
        self._ledger.add_all(scoring.statistics(), scored.response_mask)
        self._stop_together(self._rewards.spent())
        return scored

    def _stop_together(self, spent: str | None) -> None:
        if self.total(spent is not None):
            # every rank says why, since the messages of some may be lost when the first one ends
            elsewhere = next((complaint for complaint in self._ranks.gather(spent) if complaint is not None), None)
            raise RunEndedError(spent or f"on another rank, {elsewhere}")

    def reward(self, scored: ScoredRollout) -> Tensor:
        """`[N]`: the weighted sum of each row's rewards, NaN where the row is not scorable."""
        return self._rewards.row_rewards(scored)

    def report(self, name: str, value: Tensor | float, reduce: Reduction = "sum") -> None:
        """Log a number of this rank, or a tensor of them."""
        self._ledger.add(name, value, reduce=reduce, owner="Sampler")

    def total(self, value: float) -> float:
        """The sum of a number over ranks."""
        return float(self._ranks.total(torch.tensor([value], dtype=torch.float64))[0])
