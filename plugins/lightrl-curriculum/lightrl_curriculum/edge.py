"""Prompts at the policy's edge: those that it is expected to solve about half of the time."""

import math
import random
from typing import Annotated, Any

from annotated_types import Ge, Gt, Le, Lt

from lightrl import Collection, Ranks, ScoredRollout, TrainingBatch
from lightrl_curriculum.success import SuccessSampler, completions, drawn_by_all, level_of, shared_out


class EdgeSampler(SuccessSampler):
    """Draws more prompts than it needs, and completes those whose success rate is expected to be nearest to `target`.

    The rate of a candidate is drawn from Beta(s + k m, f + k (1 - m)). s and f are the completions of the prompt that succeeded and
    failed, multiplied by `decay` whenever it is used again; m = (S + 1) / (S + F + 2) is the mean of its level, with S and F counted
    alike over all prompts of the level. The nearest of all ranks are taken, and the other candidates are passed over until the next
    data epoch. Successes are remembered by the prompt's id once the policy has learnt from them, and travel in the checkpoint.

    With k = 2 and m = 1/2 this is the rule of the source. The mean of the level is ours: prompts that were never used are judged by it.

    Source: Qu et al. 2025 (MoPPS), arXiv:2507.04632; the strategy `topk` of its code in verl.
    """

    def __init__(
        self,
        group_size: Annotated[int, Ge(2), Le(2**16)] = 8,
        candidates: Annotated[float, Ge(1), Le(1000)] = 4.0,
        target: Annotated[float, Gt(0), Lt(1)] = 0.5,
        level: str | None = None,
        prior: Annotated[float, Gt(0), Le(1e6)] = 2.0,
        decay: Annotated[float, Ge(0), Le(1)] = 0.5,
        metric: str | None = None,
        slices: Annotated[int, Ge(1)] = 1,
        seed: int = 0,
    ) -> None:
        """
        Args:
            group_size: completions per prompt; at least 2.
            candidates: prompts that are drawn, as a multiple of those that are completed; at least 1, where every one is taken.
            target: the success rate that is looked for; at 0.5 the rewards of a group vary most.
            level: name of a column: prompts with one value there share what is known of them. null: all prompts do.
            prior: k, how many completions of the prompt itself the mean of its level weighs; above 0.
            decay: what remains of earlier completions when a prompt or a level is used again, from 0 to 1.
            metric: name of the raw reward that says what succeeded, from 0 to 1; null: the only one.
            slices: as in `GroupSampler`.
            seed: of the rates that are drawn.
        """
        super().__init__(group_size, metric, slices)
        self.candidates, self.target, self.level, self.prior = candidates, target, level, prior
        self.decay, self.seed = decay, seed
        self._prompts: dict[str, list[float]] = {}
        self._levels: dict[str, list[float]] = {}
        self._learnt = 0

    def collect(self, collection: Collection) -> ScoredRollout:
        """See `Sampler.collect`. ValueError: there are fewer training prompts than a rollout needs."""
        wanted = int(collection.total(collection.prompts))
        most = max(wanted, min(math.ceil(self.candidates * wanted), collection.size or wanted))
        levels = drawn_by_all(collection, most, lambda prompt: level_of(prompt, self.level))
        rates = {name: self._rate(name, level) for name, level in levels.items()}
        nearest = sorted(rates, key=lambda name: (abs(rates[name] - self.target), name))[:wanted]
        prompts = shared_out(collection, nearest)
        for prompt in prompts:
            collection.report("sampling/expected_success", self._mean(levels[prompt.id]), "mean")
        return collection.rollout_and_score(prompts, self.group_size, self.slices)

    def commit(self, learnt: TrainingBatch, ranks: Ranks) -> None:
        self._learnt += 1
        rows = completions(learnt, ranks, self.metric, self.level)
        for memory, names in ((self._prompts, [row.prompt for row in rows]), (self._levels, [row.level for row in rows])):
            scores: dict[str, list[float]] = {}
            for name, row in zip(names, rows, strict=True):
                scores.setdefault(name, []).append(row.score)
            for name, of in scores.items():
                succeeded, failed = memory.get(name, (0.0, 0.0))
                right = math.fsum(sorted(of))
                memory[name] = [self.decay * succeeded + right, self.decay * failed + len(of) - right]

    def state_dict(self) -> dict[str, Any]:
        return {"prompts": dict(self._prompts), "levels": dict(self._levels), "learnt": self._learnt} if self._learnt else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._prompts, self._levels = dict(state.get("prompts", {})), dict(state.get("levels", {}))
        self._learnt = state.get("learnt", 0)

    def _rate(self, name: str, level: str) -> float:
        succeeded, failed = self._prompts.get(name, (0.0, 0.0))
        mean = self._mean(level)
        draw = random.Random(f"{self.seed}/{self._learnt}/{name}")
        return draw.betavariate(succeeded + self.prior * mean, failed + self.prior * (1 - mean))

    def _mean(self, level: str) -> float:
        succeeded, failed = self._levels.get(level, (0.0, 0.0))
        return (succeeded + 1) / (succeeded + failed + 2)
