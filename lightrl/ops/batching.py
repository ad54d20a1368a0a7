"""How rows are cut into minibatches of whole groups or single rows, and micro-batches of a token budget."""

import torch
from torch import Tensor

from lightrl.ops.prefix_tree import SortedRows, sorted_rows

ROOM_FOR_GROUPS = 1.0, 1.1, 1.2, 1.3
"""Times an equal share of all tokens, the limits that are tried for micro-batches of equal size: whole groups seldom fill a share."""
MOST_AGAIN = 1.01
"""Times the tokens of full micro-batches, what equal ones may have: beyond it a long beginning was cut, and would be computed twice."""


def minibatches(group: Tensor, count: int, generator: torch.Generator) -> list[Tensor]:
    """Cut the rows into `count` minibatches of whole groups, groups in shuffled order.

    Args:
        group: `[N]` int64; numbers of their own cut rows one by one.
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
    if budget is None or not len(order):
        return [order] if len(order) else []
    cuts, sizes = [0], lengths[order].clamp(min=1).tolist()
    while cuts[-1] < len(sizes):
        cuts.append(cuts[-1] + max(1, budget // sizes[cuts[-1]]))
    return list(order.tensor_split(cuts[1:-1]))


def packed_batches(input_ids: Tensor, lengths: Tensor, budget: int | None) -> list[Tensor]:
    """Cut rows that are packed (`ops.packing`) into micro-batches of at most `budget` tokens, rows that begin alike together.

    A beginning counts once in a micro-batch. One of more than half the budget counts as half of it, so that its rows still stand
    together; then, and where a row is longer than the budget, a micro-batch is larger. Micro-batches are of about equal size where that
    takes no more of them.

    Args:
        input_ids: `[N, L]` int64, on the CPU.
        lengths: `[N]` int64, tokens of each row.
        budget: tokens of a micro-batch; None: one micro-batch.

    Returns:
        Index tensors that cover every row once, the most tokens first.
    """
    if not len(lengths):
        return []
    rows = sorted_rows(input_ids, lengths.tolist())
    if budget is None:
        return [torch.tensor(rows.order)]
    batches, tokens = _within(rows, budget)
    # equal ones take less memory than full ones and a rest
    for room in ROOM_FOR_GROUPS:
        equal, as_many = _within(rows, min(budget, int(room * tokens / len(batches)) + 1))
        if len(equal) == len(batches) and as_many <= MOST_AGAIN * tokens:
            return equal
    return batches


def _within(rows: SortedRows, budget: int) -> tuple[list[Tensor], int]:
    """The rows of each micro-batch within the budget, and the tokens of all."""
    pieces = _pieces(rows, 0, len(rows.order), budget)
    filled = filled_batches(torch.tensor([_counted(rows, *piece, budget) for piece in pieces]), budget)
    batches = [torch.tensor([row for i in batch.tolist() for row in rows.order[slice(*pieces[i])]]) for batch in filled]
    return batches, sum(rows.tokens(*piece) for piece in pieces)


def filled_batches(sizes: Tensor, budget: int | None) -> list[Tensor]:
    """Fill micro-batches with rows of these sizes, first fit, the largest first: no more than 11/9 of the fewest possible, and one.

    Args:
        sizes: `[N]` int64, tokens of each row.
        budget: tokens of a micro-batch (a larger row stands alone); None: one micro-batch.

    Returns:
        Index tensors that cover every row once, the most tokens first.
    """
    order = sizes.argsort(descending=True, stable=True).tolist()
    if budget is None:
        return [torch.tensor(order)] if order else []
    batches: list[list[int]] = []
    filled: list[int] = []
    for row, size in zip(order, sizes[order].tolist(), strict=True):
        place = next((i for i, tokens in enumerate(filled) if tokens + size <= budget), len(batches))
        if place == len(batches):
            batches.append([])
            filled.append(0)
        batches[place].append(row)
        filled[place] += size
    return [torch.tensor(batches[i]) for i in sorted(range(len(batches)), key=lambda i: -filled[i])]


def _pieces(rows: SortedRows, low: int, high: int, budget: int) -> list[tuple[int, int]]:
    """Runs of neighbours within the budget, cut where they have the least in common."""
    if high - low == 1 or _counted(rows, low, high, budget) <= budget:
        return [(low, high)]
    found: list[tuple[int, int]] = []
    for first, end in rows.children(low, high):
        if found and _counted(rows, found[-1][0], end, budget) <= budget:
            found[-1] = (found[-1][0], end)
        else:
            found += _pieces(rows, first, end, budget)
    return found


def _counted(rows: SortedRows, low: int, high: int, budget: int) -> int:
    """Tokens of a run of neighbours, no more than half the budget of those that all of them begin with."""
    return rows.tokens(low, high) - (max(0, rows.common(low, high) - budget // 2) if high - low > 1 else 0)


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
