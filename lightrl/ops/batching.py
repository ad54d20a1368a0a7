"""How rows are cut into minibatches of whole groups and micro-batches of a token budget."""

import torch
from torch import Tensor


def minibatches(group: Tensor, count: int, generator: torch.Generator) -> list[Tensor]:
    """Cut the rows into `count` minibatches of whole groups, groups in shuffled order.

    Args:
        group: `[N]` int64.
        count: how many; sizes differ by at most one group.
        generator: of the shuffle, on the CPU.

    Returns:
        `count` index tensors that cover every row once; with fewer groups than minibatches the last ones are empty.
    """
    ids = torch.unique(group.cpu())
    order = ids[torch.randperm(len(ids), generator=generator)]
    return [torch.isin(group.cpu(), part).nonzero()[:, 0] for part in order.tensor_split(count)]


def micro_batches(lengths: Tensor, budget: int | None) -> list[Tensor]:
    """Cut the rows, sorted by length, into micro-batches of at most `budget` padded tokens.

    Args:
        lengths: `[N]` int64, tokens of each row.
        budget: rows x longest row of a micro-batch stays within it (a longer row stands alone); None: one micro-batch.

    Returns:
        Index tensors that cover every row once, longest rows first, so that a lack of memory shows at once.
    """
    order = lengths.argsort(descending=True, stable=True)
    if budget is None:
        return [order] if len(order) else []
    batches, start = [], 0
    sizes = lengths[order].clamp(min=1).tolist()
    while start < len(sizes):
        rows = max(1, budget // sizes[start])
        batches.append(order[start : start + rows])
        start += rows
    return batches


def packed_batches(lengths: Tensor, budget: int | None) -> list[Tensor]:
    """Cut the rows into micro-batches of at most `budget` tokens, for rows that stand one behind the other without padding.

    First fit, longest rows first: no more than 11/9 of the fewest possible, and one.

    Args:
        lengths: `[N]` int64, tokens of each row.
        budget: sum of the lengths of a micro-batch (a longer row stands alone); None: one micro-batch.

    Returns:
        Index tensors that cover every row once.
    """
    order = lengths.argsort(descending=True, stable=True).tolist()
    if budget is None:
        return [torch.tensor(order)] if order else []
    batches: list[list[int]] = []
    room: list[int] = []
    for row, size in zip(order, lengths[order].tolist(), strict=True):
        place = next((i for i, left in enumerate(room) if size <= left), len(room))
        if place == len(room):
            batches.append([])
            room.append(budget)
        batches[place].append(row)
        room[place] -= size
    return [torch.tensor(batch) for batch in batches]


def split_to(batches: list[Tensor], count: int) -> list[Tensor]:
    """The same rows in exactly `count` micro-batches, so that all ranks run equally many.

    The largest micro-batch is halved until there are enough; where there are not rows enough, empty ones are added.
    """
    batches = list(batches)
    while len(batches) < count and max((len(b) for b in batches), default=0) > 1:
        largest = max(range(len(batches)), key=lambda i: len(batches[i]))
        batch = batches.pop(largest)
        batches[largest:largest] = [batch[: len(batch) // 2], batch[len(batch) // 2 :]]
    return batches + [torch.empty(0, dtype=torch.long)] * (count - len(batches))
