"""The common base of samplers that remember success: completions of all ranks, and prompts that all ranks share out."""

import json
from collections.abc import Callable, Sequence, Set
from typing import NamedTuple

from lightrl import Collection, GroupSampler, Prompt, Ranks, RunEndedError, TrainingBatch, deciding_reward, metric_of


class SuccessSampler(GroupSampler):
    """The base of samplers that remember which completions succeeded, by one raw reward."""

    def __init__(self, group_size: int, metric: str | None, slices: int) -> None:
        """
        Args:
            group_size: completions per prompt.
            metric: name of the raw reward that says what succeeded, from 0 to 1; null: the only one.
            slices: as in `GroupSampler`.
        """
        super().__init__(group_size, slices)
        self.metric = metric

    def check(self, rewards: Sequence[str]) -> None:
        """See `Sampler.check`: `metric` names one reward."""
        deciding_reward(rewards, self.metric)


class Completion(NamedTuple):
    """A scored completion."""

    prompt: str
    level: str
    score: float
    """From 0, failed, to 1, succeeded."""


def completions(learnt: TrainingBatch, ranks: Ranks, metric: str | None, level: str | None = None) -> list[Completion]:
    """The scorable completions of all ranks, in an order that depends on nothing but them; success is held within 0 and 1."""
    scores = metric_of(learnt, metric).clamp(0, 1).tolist()
    rows = zip(learnt.prompts, scores, learnt.scorable.tolist(), strict=True)
    mine = [[prompt.id, level_of(prompt, level), score] for prompt, score, scorable in rows if scorable and score == score]
    return sorted(Completion(*row) for of_rank in ranks.gather(mine) for row in of_rank)


def level_of(prompt: Prompt, column: str | None) -> str:
    """The level of a prompt, from the column that tells it, without which the run ends (RunEndedError); None: there is one level."""
    if column is not None and column not in prompt.columns:
        raise RunEndedError(f"algorithm.sampler.level is {column!r}, and prompt {prompt.id!r} has the columns {sorted(prompt.columns)}")
    return "" if column is None else json.dumps(prompt.columns[column], sort_keys=True)


def drawn_by_all(collection: Collection, count: int, describe: Callable[[Prompt], str], beside: Set[str] = frozenset()) -> dict[str, str]:
    """The next `count` prompts of all ranks that are not `beside`: a text about each by id, in their order; ValueError: there are fewer."""
    if collection.size is not None and collection.size < count + len(beside):
        raise ValueError(f"a rollout needs {count + len(beside)} different prompts of {collection.size}: lower model.prompts_per_rollout")
    ranks, found = len(collection.gather(None)), dict[str, str]()
    while missing := count - len(found):
        mine = collection.draw(missing // ranks + (collection.rank < missing % ranks))
        of_ranks = collection.gather([[prompt.id, describe(prompt)] for prompt in mine])
        found |= {name: text for of_rank in of_ranks for name, text in of_rank if name not in beside}
    return found


def shared_out(collection: Collection, names: Sequence[str]) -> list[Prompt]:
    """The prompts of this rank, of those that all ranks complete: ids, the same on every rank."""
    counts = collection.gather(collection.prompts)
    first = sum(counts[: collection.rank])
    return [collection.prompt(name) for name in names[first : first + collection.prompts]]
