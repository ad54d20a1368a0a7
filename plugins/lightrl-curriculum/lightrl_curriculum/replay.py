"""Prompts whose groups had some variance lately come again."""

from typing import Annotated, Any

from annotated_types import Ge, Le

from lightrl import Collection, Ranks, ScoredRollout, TrainingBatch
from lightrl_curriculum.success import SuccessSampler, completions, drawn_by_all, shared_out


class ReplaySampler(SuccessSampler):
    """Fills a part of each rollout with prompts whose last group had some variance, those of a success rate near 1/2 first.

    Prompts are replayed and completions are not: the present policy completes them anew, so that every row is as on-policy as without
    replay and no correction is needed. A prompt rests for `cooldown` rollouts after each use and leaves after `uses` of them, or when
    all of its completions score the same. The others are drawn from the stream, each once per data epoch.

    Source: Baroian and Berger 2026 (Prompt Replay), arXiv:2603.21177.
    """

    def __init__(
        self,
        group_size: Annotated[int, Ge(2), Le(2**16)] = 8,
        share: Annotated[float, Ge(0), Le(1)] = 0.5,
        cooldown: Annotated[int, Ge(0)] = 2,
        uses: Annotated[int, Ge(1)] = 4,
        metric: str | None = None,
        slices: Annotated[int, Ge(1)] = 1,
    ) -> None:
        """
        Args:
            group_size: completions per prompt; at least 2.
            share: most of a rollout that is replayed, from 0 to 1.
            cooldown: rollouts that a prompt rests after each use; 0: none.
            uses: groups that are learnt from of a prompt before the stream brings it again, the first one included; at least 1.
            metric: name of the raw reward that says what succeeded, from 0 to 1; null: the only one.
            slices: as in `GroupSampler`.
        """
        super().__init__(group_size, metric, slices)
        self.share, self.cooldown, self.uses = share, cooldown, uses
        self._waiting: dict[str, list[float]] = {}
        self._learnt = 0

    def collect(self, collection: Collection) -> ScoredRollout:
        """See `Sampler.collect`. ValueError: there are fewer training prompts than a rollout needs."""
        wanted = int(collection.total(collection.prompts))
        rested = [name for name, (_, _, last) in self._waiting.items() if self._learnt - last >= self.cooldown]
        again = sorted(rested, key=lambda name: (self._waiting[name][0], name))[: int(self.share * wanted)]
        fresh = drawn_by_all(collection, wanted - len(again), lambda prompt: "", frozenset(again))
        prompts = shared_out(collection, [*again, *fresh])
        collection.report("sampling/replayed", sum(prompt.id not in fresh for prompt in prompts))
        return collection.rollout_and_score(prompts, self.group_size, self.slices)

    def commit(self, learnt: TrainingBatch, ranks: Ranks) -> None:
        self._learnt += 1
        scores: dict[str, list[float]] = {}
        for row in completions(learnt, ranks, self.metric):
            scores.setdefault(row.prompt, []).append(row.score)
        for name, of in scores.items():
            _, used, _ = self._waiting.pop(name, (0.0, 0, 0))
            if used + 1 < self.uses and max(of) > min(of):
                self._waiting[name] = [abs(sum(of) / len(of) - 0.5), used + 1, self._learnt]

    def state_dict(self) -> dict[str, Any]:
        return {"waiting": dict(self._waiting), "learnt": self._learnt} if self._learnt else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._waiting, self._learnt = dict(state.get("waiting", {})), state.get("learnt", 0)
