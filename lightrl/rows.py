"""Batches of rows, which are selected, padded, moved and joined alike whatever their fields are; and values on their last tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class Sequences:
    """S sequences of tokens, of which each row of a batch has one or more."""

    input_ids: Tensor
    """`[S, L]` int64, padded on the right with any id."""
    lengths: Tensor
    """`[S]` int64: tokens of each."""
    row: Tensor
    """`[S]` int64, from 0 up: the row that each belongs to."""

    def longest(self) -> Tensor:
        """`[N]` int64: tokens of the longest of each row."""
        rows = int(self.row.max()) + 1 if len(self.row) else 0
        return self.lengths.new_zeros(rows).scatter_reduce(0, self.row, self.lengths, "amax")

    def to(self, device: torch.device | str) -> Sequences:
        """The same on a device."""
        return Sequences(self.input_ids.to(device), self.lengths.to(device), self.row.to(device))


@dataclass(kw_only=True)
class Rows:
    """A batch of rows whose fields are tensors and lists of one length N.

    A field's metadata `pad` is the value that lengthens it on the right when rows of different L meet.
    """

    def __post_init__(self) -> None:
        self._host: Self | None = None

    def __len__(self) -> int:
        raise NotImplementedError

    def sequences(self) -> Sequences:
        """The tokens of the rows, by whose number they are cut into micro-batches."""
        raise NotImplementedError

    def places(self) -> Tensor:
        """`[N]` int64, on the CPU: positions of the `[N, L]` fields that each row fills."""
        return self.sequences().to("cpu").longest()

    @property
    def width(self) -> int:
        """L: positions of the `[N, L]` fields."""
        return max(value.shape[1] for value in vars(self).values() if isinstance(value, Tensor) and value.dim() > 1)

    def select(self, rows: Sequence[int] | Tensor) -> Self:
        """The rows at these indices, in this order; padding is kept; a TypeError for a mask in place of indices."""
        index = torch.as_tensor(rows)
        if index.dtype == torch.bool:
            raise TypeError("select wants the indices of rows, got a mask: use mask.nonzero()[:, 0]")
        index = index.long()
        return type(self)(**{f.name: _select(getattr(self, f.name), index, len(self)) for f in fields(self)})

    def padded(self, length: int) -> Self:
        """The same rows with every `[N, L]` field cut or filled on the right to `length` positions."""
        return type(self)(**{f.name: _pad(getattr(self, f.name), length, f.metadata.get("pad", 0)) for f in fields(self)})

    def to(self, device: torch.device | str) -> Self:
        """The same rows with every tensor on `device`."""
        moved = type(self)(**{f.name: _to(getattr(self, f.name), device) for f in fields(self)})
        if torch.device(device) != torch.device("cpu"):
            moved._host = self.host
        return moved

    @property
    def host(self) -> Self:
        """The same rows on the CPU: those that `to` has moved from there, so that no device is waited for, or copies."""
        return self.to("cpu") if self._host is None else self._host

    @classmethod
    def concat(cls, batches: Sequence[Self]) -> Self:
        """All rows of several batches, padded to the longest; per-batch scalars must agree. A batch without rows is left out.

        Raises:
            ValueError: there is no batch, or a scalar field differs between two of them.
        """
        if not batches:
            raise ValueError("concat needs at least one batch")
        # where nothing was sampled, an engine has recorded nothing under any name
        batches = [batch for batch in batches if len(batch)] or batches[:1]
        if len(batches) == 1:
            return batches[0]
        length = max(batch.width for batch in batches)
        wide = [batch.padded(length) for batch in batches]
        return cls(**{f.name: _concat(f.name, [getattr(batch, f.name) for batch in wide]) for f in fields(cls)})


def _select(value: object, index: Tensor, rows: int) -> Any:
    if isinstance(value, Tensor):
        return value[index.to(value.device)]
    if isinstance(value, dict):
        return {key: _select(part, index, rows) for key, part in value.items()}
    if isinstance(value, list) and len(value) == rows:
        return [value[i] for i in index.tolist()]
    return value


def _pad(value: object, length: int, pad: float) -> Any:
    if isinstance(value, dict):
        # what is not known is NaN, and of whole numbers and choices 0
        floating = {key: isinstance(part, Tensor) and part.is_floating_point() for key, part in value.items()}
        return {key: _pad(part, length, math.nan if floating[key] else 0) for key, part in value.items()}
    if not isinstance(value, Tensor) or value.dim() < 2 or value.shape[1] == length:
        return value
    if value.shape[1] > length:
        return value[:, :length]
    filler = value.new_full((value.shape[0], length - value.shape[1], *value.shape[2:]), pad)
    return torch.cat([value, filler], dim=1)


def _to(value: object, device: torch.device | str) -> Any:
    if isinstance(value, Tensor):
        return onto(value, torch.device(device)) if value.device.type == "cpu" else value.to(device)
    return {key: _to(part, device) for key, part in value.items()} if isinstance(value, dict) else value


def _concat(name: str, values: list[Any]) -> Any:
    first = values[0]
    if all(isinstance(value, Tensor) for value in values):
        return torch.cat(values)
    if isinstance(first, list):
        return [item for value in values for item in value]
    if isinstance(first, dict):
        if others := [value for value in values if value.keys() != first.keys()]:
            raise ValueError(f"batches to be joined differ in {name}: {sorted(first)} and {sorted(others[0])}")
        return {key: _concat(f"{name}.{key}", [value[key] for value in values]) for key in first}
    if any(isinstance(value, Tensor) for value in values):
        raise ValueError(f"batches to be joined differ in {name}: one has it and another has not")
    if any(value != first for value in values):
        raise ValueError(f"batches to be joined differ in {name}: {sorted({str(v) for v in values})}")
    return first


def onto(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor of the CPU on a device, without waiting for it: from pinned memory the copy runs beside what the host does next."""
    pinned = tensor.pin_memory() if device.type == "cuda" and tensor.device.type == "cpu" else tensor
    return pinned.to(device, non_blocking=True)


def last_position(mask: Tensor) -> Tensor:
    """`[n]` index of each row's last selected position; -1 for a row without any."""
    positions = torch.arange(mask.shape[1], device=mask.device)
    return torch.where(mask, positions, -1).amax(1) if mask.shape[1] else mask.new_full((mask.shape[0],), -1, dtype=torch.long)


def on_last_token(values: Tensor, mask: Tensor) -> Tensor:
    """`[N]` scores as `[N, L]`: each on its row's last selected position, NaN elsewhere and where nothing is selected."""
    out = values.new_full(mask.shape, math.nan)
    last = last_position(mask)
    rows = (last >= 0).nonzero()[:, 0]
    out[rows, last[rows]] = values[rows]
    return out
