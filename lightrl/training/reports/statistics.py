"""Adds up the numbers of parts and phases, over rows, tokens, micro-batches, optimizer steps and ranks."""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from lightrl.types import Statistic, Statistics

JOIN: dict[str, Callable[[float, float], float]] = {"mean": operator.add, "sum": operator.add, "max": max, "min": min}
"""Kinds of reduction, and how two values of one become one; the value of a mean is a sum until it is reduced."""
NOTHING = {"mean": 0.0, "sum": 0.0, "max": -math.inf, "min": math.inf}
"""The value that a number which does not count has in each."""
Entry = tuple[str, float, float]
"""Kind of reduction, value and count."""
CORE = ""
"""The owner of statistics that no part reports."""


class Reporting(ABC):
    """Takes named numbers."""

    @abstractmethod
    def add(self, name: str, value: Tensor | float, mask: Tensor | None = None, reduce: str = "mean", owner: str = CORE) -> None:
        """Add values of any shape under a name, which are those of its owner.

        Args:
            value: NaN is left out.
            mask: of the same shape, bool: values that count; None: all.
            reduce: `mean`, `sum`, `max` or `min`; the same each time for a name.
        """

    def add_all(self, statistics: Statistics, mask: Tensor, part: object = None) -> None:
        """Add several of a part (None: the core) at once, `[n]` per row or `[n, L]` per token, of which those in the mask count."""
        owner = CORE if part is None else type(part).__name__
        for name, statistic in statistics.items():
            entry = statistic if isinstance(statistic, Statistic) else Statistic(statistic)
            self.add(name, entry.value, mask if entry.value.dim() == 2 else None, entry.reduce, owner)


@dataclass(frozen=True)
class Reported:
    """Values under one name, as `Reporting.add` was given them."""

    name: str
    value: Tensor | float
    mask: Tensor | None
    reduce: str
    owner: str


class Report(Reporting):
    """A list of named numbers for somebody else to add up: the statistics of a micro-batch."""

    def __init__(self) -> None:
        self.entries: list[Reported] = []

    def __iter__(self) -> Iterator[Reported]:
        return iter(self.entries)

    def add(self, name: str, value: Tensor | float, mask: Tensor | None = None, reduce: str = "mean", owner: str = CORE) -> None:
        """As `Reporting.add`; gradients are left behind."""
        self.entries.append(Reported(name, value.detach() if isinstance(value, Tensor) else value, mask, reduce, owner))


class StatisticsLedger(Reporting):
    """Collects named numbers during a rollout: sums stay where their values are, and come to the host together when they are asked for."""

    def __init__(self, kept: dict[str, list[Tensor]] | None = None) -> None:
        """`kept`: names whose single values are kept beside their reduction, on this rank only, NaN where one does not count."""
        self._entries: dict[str, Entry] = {}
        self._waiting: list[tuple[str, Tensor, Tensor]] = []
        self._kinds: dict[str, str] = {}
        self._owners: dict[str, str] = {}
        self.kept = {} if kept is None else kept

    def add(self, name: str, value: Tensor | float, mask: Tensor | None = None, reduce: str = "mean", owner: str = CORE) -> None:
        """As `Reporting.add`; a ValueError if a part uses a name of the core, or a name is reduced in two ways."""
        self._own(name, owner, reduce)
        if isinstance(value, Tensor):
            self._add_tensor(name, value.detach().double(), mask, reduce)
        elif not math.isnan(value):
            self._merge(name, (reduce, float(value), 1.0))

    def _add_tensor(self, name: str, values: Tensor, mask: Tensor | None, reduce: str) -> None:
        counts = ~values.isnan() if mask is None else ~values.isnan() & mask
        if name in self.kept:
            self.kept[name].append(torch.where(counts, values, torch.nan).flatten())
        if values.numel():
            chosen = torch.where(counts, values, NOTHING[reduce])
            value_of = {"max": chosen.max, "min": chosen.min}.get(reduce, chosen.sum)
            self._waiting.append((name, value_of(), counts.sum()))

    def add_report(self, entries: Iterable[Reported]) -> None:
        """Add everything of a report, in its order."""
        for entry in entries:
            self.add(entry.name, entry.value, entry.mask, entry.reduce, entry.owner)

    def local(self, name: str) -> tuple[float, float]:
        """This rank's value and count under a name so far (a mean's value is still a sum); 0 and 0 if there is none."""
        entries = self._settled()
        return entries[name][1:] if name in entries else (0.0, 0.0)

    def merge(self, other: StatisticsLedger) -> None:
        """Add everything that another ledger holds."""
        for name, owner in other._owners.items():
            self._own(name, owner, other._kinds[name])
        for name, entry in other._entries.items():
            self._merge(name, entry)
        self._waiting += other._waiting

    def state_dict(self) -> dict[str, list[Any]]:
        """Everything that it holds, as JSON values."""
        return {name: [*entry, self._owners[name]] for name, entry in self._settled().items()}

    @classmethod
    def from_state(cls, state: Mapping[str, list[Any]]) -> Self:
        """The ledger whose `state_dict` this is."""
        ledger = cls()
        for name, (kind, value, count, owner) in state.items():
            ledger._own(name, owner, kind)
            ledger._entries[name] = (kind, value, count)
        return ledger

    def reduce(self, gather: Callable[[dict[str, Entry]], list[dict[str, Entry]]]) -> dict[str, float]:
        """Every number over all ranks, by name; the ledger is empty afterwards."""
        everyone = StatisticsLedger()
        for entries in gather(self._settled()):
            for name, entry in entries.items():
                everyone._merge(name, entry)
        self._entries = {}
        self._kinds.clear()
        self._owners.clear()
        return {name: value / count if reduce == "mean" else value for name, (reduce, value, count) in sorted(everyone._entries.items())}

    def _own(self, name: str, owner: str, reduce: str) -> None:
        before = self._owners.setdefault(name, owner)
        if before != owner and CORE in (before, owner):
            part = owner if before == CORE else before
            raise ValueError(
                f"{part} reports a statistic named {name!r}, which is the core's and would be mixed with it: choose a name of its own, "
                f"such as {part.lower()}/{name.rpartition('/')[2]}"
            )
        kind = self._kinds.setdefault(name, reduce)
        if kind != reduce:
            raise ValueError(f"statistic {name!r} is reduced by {kind} in one place and by {reduce} in another")

    def _settled(self) -> dict[str, Entry]:
        """All entries, after one copy from each device that still has some."""
        waiting, self._waiting = self._waiting, []
        for device in dict.fromkeys(value.device for _, value, _ in waiting):
            there = [(name, value, count) for name, value, count in waiting if value.device == device]
            numbers = torch.stack([number.double() for _, *both in there for number in both]).tolist()
            for (name, _, _), value, count in zip(there, numbers[::2], numbers[1::2], strict=True):
                if count:
                    self._merge(name, (self._kinds[name], value, count))
        return self._entries

    def _merge(self, name: str, entry: Entry) -> None:
        kind, value, count = entry
        if name in self._entries:
            _, before, counted = self._entries[name]
            value, count = JOIN[kind](before, value), counted + count
        self._entries[name] = (kind, value, count)
