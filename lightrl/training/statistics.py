"""Adds up the numbers of parts and phases, over rows, tokens, micro-batches, optimizer steps and ranks."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lightrl.types import Statistic, Statistics

JOIN: dict[str, Callable[[float, float], float]] = {"mean": operator.add, "sum": operator.add, "max": max, "min": min}
"""Kinds of reduction, and how two values of one become one; the value of a mean is a sum until it is reduced."""
Entry = tuple[str, float, float]
"""Kind of reduction, value and count."""
CORE = ""
"""The owner of statistics that no part reports."""


class Reporting(ABC):
    """Takes named numbers."""

    @abstractmethod
    def add(self, name: str, value: Tensor | float, mask: Tensor | None = None, reduce: str = "mean", owner: str = CORE) -> None:
        """Add values under a name.

        Args:
            name: under which it is logged.
            value: any shape; NaN is left out.
            mask: of the same shape, bool: values that count; None: all.
            reduce: `mean`, `sum`, `max` or `min`; the same each time for a name.
            owner: who reports it.
        """

    def add_all(self, statistics: Statistics, mask: Tensor, part: object = None) -> None:
        """Add several at once, `[n]` per row or `[n, L]` per token.

        Args:
            statistics: by name.
            mask: `[n, L]` bool: tokens that count.
            part: that returned them; None: the core.
        """
        owner = CORE if part is None else type(part).__name__
        for name, statistic in statistics.items():
            entry = statistic if isinstance(statistic, Statistic) else Statistic(statistic)
            self.add(name, entry.value, mask if entry.value.dim() == 2 else None, entry.reduce, owner)


@dataclass(frozen=True)
class Reported:
    """Values under one name, as `Reporting.add` was given them."""

    name: str
    value: Tensor
    mask: Tensor | None
    reduce: str
    owner: str


class Report(Reporting):
    """A list of named numbers for somebody else to add up: the statistics of a micro-batch."""

    def __init__(self) -> None:
        self.entries: list[Reported] = []

    def add(self, name: str, value: Tensor | float, mask: Tensor | None = None, reduce: str = "mean", owner: str = CORE) -> None:
        """As `Reporting.add`; gradients are left behind."""
        self.entries.append(Reported(name, torch.as_tensor(value).detach(), mask, reduce, owner))


class StatisticsLedger(Reporting):
    """Collects named numbers during a rollout; nothing is synchronised before `reduce`."""

    def __init__(self, kept: dict[str, list[Tensor]] | None = None) -> None:
        """
        Args:
            kept: names whose single values are kept beside their reduction, on this rank only, each with what there is so far; for
                histograms. None: none.
        """
        self._entries: dict[str, Entry] = {}
        self._owners: dict[str, str] = {}
        self.kept = {} if kept is None else kept

    def add(self, name: str, value: Tensor | float, mask: Tensor | None = None, reduce: str = "mean", owner: str = CORE) -> None:
        """As `Reporting.add`.

        Raises:
            ValueError: a part reports under a name that is the core's, or a name is reduced in two ways.
        """
        self._own(name, owner)
        values = torch.as_tensor(value).detach().double()
        chosen = ~values.isnan() if mask is None else ~values.isnan() & mask
        kept = values[chosen]
        if name in self.kept:
            self.kept[name].append(kept.flatten().cpu())
        if kept.numel():
            value_of = {"max": kept.max, "min": kept.min}.get(reduce, kept.sum)
            self._merge(name, reduce, value_of().item(), float(kept.numel()))

    def add_report(self, entries: Iterable[Reported]) -> None:
        """Add everything of a report, in its order."""
        for entry in entries:
            self.add(entry.name, entry.value, entry.mask, entry.reduce, entry.owner)

    def local(self, name: str) -> tuple[float, float]:
        """This rank's value and count under a name so far (a mean's value is still a sum); 0 and 0 if there is none."""
        return self._entries[name][1:] if name in self._entries else (0.0, 0.0)

    def merge(self, other: StatisticsLedger) -> None:
        """Add everything that another ledger holds."""
        for name, entry in other._entries.items():
            self._own(name, other._owners[name])
            self._merge(name, *entry)

    def state_dict(self) -> dict[str, list[Any]]:
        """Everything that it holds, as JSON values."""
        return {name: [*entry, self._owners[name]] for name, entry in self._entries.items()}

    @classmethod
    def from_state(cls, state: Mapping[str, list[Any]]) -> StatisticsLedger:
        """The ledger whose `state_dict` this is."""
        ledger = cls()
        for name, (kind, value, count, owner) in state.items():
            ledger._entries[name], ledger._owners[name] = (kind, value, count), owner
        return ledger

    def reduce(self, gather: Callable[[dict[str, Entry]], list[dict[str, Entry]]]) -> dict[str, float]:
        """Every number over all ranks, by name; the ledger is empty afterwards.

        Args:
            gather: gives what every rank passed to it, in the order of ranks.
        """
        everyone = StatisticsLedger()
        for entries in gather(self._entries):
            for name, entry in entries.items():
                everyone._merge(name, *entry)
        self._entries = {}
        self._owners.clear()
        return {name: value / count if reduce == "mean" else value for name, (reduce, value, count) in sorted(everyone._entries.items())}

    def _own(self, name: str, owner: str) -> None:
        before = self._owners.setdefault(name, owner)
        if before != owner and CORE in (before, owner):
            part = owner if before == CORE else before
            raise ValueError(
                f"{part} reports a statistic named {name!r}, which is the core's and would be mixed with it: choose a name of its own, "
                f"such as {part.lower()}/{name.rpartition('/')[2]}"
            )

    def _merge(self, name: str, reduce: str, value: float, count: float) -> None:
        if name not in self._entries:
            self._entries[name] = (reduce, value, count)
            return
        kind, before, counted = self._entries[name]
        if kind != reduce:
            raise ValueError(f"statistic {name!r} is reduced by {kind} in one place and by {reduce} in another")
        self._entries[name] = (kind, JOIN[kind](before, value), counted + count)
