"""Prompts that all ranks draw and share out together, none of them twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

from lightrl import Collection, Prompt


def drawn_by_all(collection: Collection, count: int, describe: Callable[[Prompt], str], beside: Set[str] = frozenset()) -> dict[str, str]:
    """The next prompts of the stream over all ranks: a description of each by its id, in the order of the stream.

    Args:
        collection: of this rank.
        count: how many different ones, on all ranks together.
        describe: a text that is needed of each prompt.
        beside: ids of prompts that count as drawn already.

    Raises:
        ValueError: there are not as many.
    """
    if collection.size is not None and collection.size < count + len(beside):
        raise ValueError(f"a rollout needs {count + len(beside)} different prompts of {collection.size}: lower model.prompts_per_rollout")
    ranks, found = len(collection.gather(None)), dict[str, str]()
    while missing := count - len(found):
        mine = collection.draw(missing // ranks + (collection.rank < missing % ranks))
        of_ranks = collection.gather([[prompt.id, describe(prompt)] for prompt in mine])
        found |= {name: text for of_rank in of_ranks for name, text in of_rank if name not in beside}
    return found


def shared_out(collection: Collection, names: Sequence[str]) -> list[Prompt]:
    """The prompts of this rank, of those that all ranks complete.

    Args:
        collection: of this rank.
        names: ids, as many as all ranks want together, the same on every rank.
    """
    counts = collection.gather(collection.prompts)
    first = sum(counts[: collection.rank])
    return [collection.prompt(name) for name in names[first : first + collection.prompts]]
