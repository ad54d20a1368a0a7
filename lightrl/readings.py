"""Rows as a policy reads them: mostly as they are, or each turn after a context of its own; and their turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from lightrl.prompt import Episode, Reading, Turn
from lightrl.rows import Sequences, onto


class ReadRows:
    """The sequences in which a policy reads n rows, and the way from one to the other."""

    def __init__(self, input_ids: Tensor, lengths: Tensor, readings: Sequence[Sequence[Reading]]) -> None:
        """
        Args:
            input_ids: `[n, L]` int64, on the CPU.
            lengths: `[n]` int64: tokens of each row.
            readings: those of each row, in their order; none of a row that is read as it is, and an empty sequence where all are.
        """
        self._shape = (input_ids.shape[0], input_ids.shape[1])
        self._taken: Tensor | None = None
        self.input_ids, self.lengths, self.row = input_ids, lengths, torch.arange(len(input_ids))
        if any(readings):
            self._cut(readings)

    def _cut(self, readings: Sequence[Sequence[Reading]]) -> None:
        """Lay out one sequence for each reading."""
        ids, lengths = self.input_ids, self.lengths.tolist()
        every = [(row, one) for row, own in enumerate(readings) for one in own or [Reading(0, lengths[row], ())]]
        self.row = torch.tensor([row for row, _ in every])
        self.lengths = torch.tensor([len(one.context) + one.length for _, one in every])
        self.input_ids = ids.new_zeros(len(every), int(self.lengths.max()))
        taken, put = [], []
        for number, (row, one) in enumerate(every):
            first = len(one.context)
            self.input_ids[number, :first] = torch.tensor(one.context, dtype=ids.dtype)
            taken.append(row * self._shape[1] + one.start + torch.arange(one.length))
            put.append(number * self.input_ids.shape[1] + first + torch.arange(one.length))
        self._taken, self._put = torch.cat(taken), torch.cat(put)
        self.input_ids.view(-1)[self._put] = ids.flatten()[self._taken]

    @property
    def sequences(self) -> Sequences:
        """The same, to be cut into micro-batches."""
        return Sequences(self.input_ids, self.lengths, self.row)

    def mask(self, mask: Tensor) -> Tensor:
        """`[s, l]` bool of the s sequences, of `[n, L]` of the rows; on the CPU."""
        if self._taken is None:
            return mask
        laid = torch.zeros(self.input_ids.shape, dtype=torch.bool)
        laid.view(-1)[self._put] = mask.cpu().flatten()[self._taken]
        return laid

    def at_rows(self, values: Tensor) -> Tensor:
        """`[n, L]` of the rows, of `[s, l]` of the sequences; 0 where nothing is read."""
        if self._taken is None:
            return values
        found = values.flatten().index_select(0, onto(self._put, values.device))
        rows, width = self._shape
        return values.new_zeros(rows * width).index_copy(0, onto(self._taken, values.device), found).view(rows, width)


def read_after(contexts: Sequence[Sequence[int]], first: Tensor, lengths: Tensor) -> list[tuple[Reading, ...]]:
    """The readings of rows that follow contexts of their own, an empty one: the row's.

    Args:
        contexts: n of them, in token ids.
        first: `[n]` int64: position of the first token that follows.
        lengths: `[n]` int64: tokens of each row.
    """
    spoken = zip(contexts, first.tolist(), lengths.tolist(), strict=True)
    return [(Reading(start, end - start, tuple(context)),) if context else () for context, start, end in spoken]


def turns_of(mask: Tensor, episode: Episode) -> list[Turn]:
    """The turns of a row in their order; positions alone where the row has another number of turns than its record.

    Args:
        mask: `[L]` bool.
        episode: the record of the row.
    """
    edges = torch.nn.functional.pad(mask.int(), (1, 1)).diff().nonzero()[:, 0].tolist()
    starts, ends = edges[::2], edges[1::2]
    turns = [Turn(slice(before, start), slice(start, end)) for before, start, end in zip([0, *ends], starts, ends, strict=False)]
    if len(turns) != len(episode.own):
        return turns
    rewards, befores = episode.rewards or (None,) * len(turns), [-1, *episode.own]
    told = zip(turns, befores, episode.own, rewards, strict=False)
    return [
        replace(turn, messages=episode.messages[before + 1 : own], text=episode.messages[own]["content"], reward=reward)
        for turn, before, own, reward in told
    ]
