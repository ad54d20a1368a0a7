"""The rows of a batch, with the tokens sampled so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional as F

STEPS_AT_ONCE = 64
"""Steps by which the memory of tokens grows, at the least."""


@dataclass(frozen=True)
class AdmittedRows:
    """Rows that the model has just read; they stand below those that it was decoding."""

    logits: Tensor
    """`[n, V]` of their first tokens."""
    seeds: Tensor
    """`[n]` int64, of each row's random numbers."""
    limits: Tensor
    """`[n]` int64 on the host, the most tokens each row may get; at least 1."""
    awaited: bool
    """A row that leaves the batch is waited for: others want its place, or its episode goes on."""


@dataclass(frozen=True)
class DecodedRow:
    """A row that has left the batch."""

    row: int
    """Its number, 0 to n - 1."""
    place: int
    """Its number in the batch that it leaves, which the model still knows."""
    tokens: list[int]
    """The sampled ids, the closing one included."""
    logprobs: list[float]
    """One per token."""
    stopped: bool
    """Ended by EOS or a stop string, and not by its limit."""
    heard: dict[str, Tensor] = field(default_factory=dict)
    """`[tokens, ...]` each, of what the model records."""


class DecodingRows:
    """The rows of the batch, in its order and on the host: what was sampled in each, and whether it goes on."""

    def __init__(self, limits: Tensor) -> None:
        """`limits`: `[n]` int64, the most tokens each row may get; at least 1."""
        self.numbers = torch.arange(len(limits))
        """In the order in which rows have come."""
        self.alive = torch.ones_like(self.numbers, dtype=torch.bool)
        """Those that have not ended."""
        self.counts = torch.zeros_like(self.numbers)
        """Tokens of each."""
        self._limits = limits
        self._stopped = ~self.alive
        self._next = len(limits)
        self._added = 0
        # a column per row: a step is written at once
        self._tokens = self.numbers.new_zeros(STEPS_AT_ONCE, len(limits))
        self._logprobs = torch.zeros(self._tokens.shape, dtype=torch.float32)
        self._first = torch.zeros_like(self.numbers)
        self._heard: dict[str, list[Tensor]] = {}

    @property
    def left(self) -> int:
        """Tokens after which no row is left, at the latest."""
        return int((self._limits - self.counts)[self.alive].max())

    def add(self, tokens: Tensor, logprobs: Tensor, ended: Tensor, heard: Mapping[str, Tensor]) -> None:
        """Take the next tokens.

        Args:
            tokens: `[n]` int64.
            logprobs: `[n]`, of these.
            ended: `[n]` bool: a row that is still alive ends with its token.
            heard: `[n, ...]` each, of what the model records, on the CPU.
        """
        for name, numbers in heard.items():
            self._heard.setdefault(name, []).append(numbers)
        if self._added == len(self._tokens):
            more = max(STEPS_AT_ONCE, self._added)
            self._tokens, self._logprobs = (F.pad(part, (0, 0, 0, more)) for part in (self._tokens, self._logprobs))
        self._tokens[self._added], self._logprobs[self._added] = tokens, logprobs
        self._added += 1
        self.counts += self.alive
        self._stopped |= ended & self.alive
        self.alive = self.alive & ~ended & (self._limits > self.counts)

    def gone(self) -> list[DecodedRow]:
        """The rows that have ended since `keep_alive`."""
        places = (~self.alive).nonzero()[:, 0]
        counts = self.counts[places]
        written = self._first[places] + torch.arange(int(counts.max()))[:, None]
        # what is read beyond the end of a row is not taken
        written = written.clamp(max=self._added - 1)
        columns = (
            self.numbers[places],
            places,
            self._tokens[written, places].T,
            self._logprobs[written, places].T,
            counts,
            self._stopped[places],
        )
        rows = zip(*(column.tolist() for column in columns), strict=True)
        heard = {name: torch.stack(steps)[written, places].transpose(0, 1) for name, steps in self._heard.items()}
        return [
            DecodedRow(row, place, tokens[:n], logprobs[:n], stopped, {name: of[i, :n] for name, of in heard.items()})
            for i, (row, place, tokens, logprobs, n, stopped) in enumerate(rows)
        ]

    def keep_alive(self) -> Tensor:
        """Forget the rows that are gone; `[m]` places of those that stay, of which the last take the places that are free."""
        kept = torch.arange(int(self.alive.sum()))
        kept[~self.alive[: len(kept)]] = len(kept) + self.alive[len(kept) :].nonzero()[:, 0]
        self.numbers, self._limits, self.counts = self.numbers[kept], self._limits[kept], self.counts[kept]
        self.alive, self._stopped, self._first = self.alive[kept], self._stopped[kept], self._first[kept]
        self._tokens, self._logprobs = self._tokens[:, kept], self._logprobs[:, kept]
        self._heard = {name: [step[kept] for step in steps] for name, steps in self._heard.items()}
        return kept

    def join(self, limits: Tensor) -> None:
        """Take further rows, below the others. `limits`: `[m]` int64, as those of the first rows."""
        begun = int(self._first.min()) if len(self._first) else self._added
        more = len(limits)
        new = self.numbers.new_zeros(more)
        self._tokens, self._logprobs = (F.pad(part[begun:], (0, more)) for part in (self._tokens, self._logprobs))
        self._heard = {
            name: [torch.cat([step, step.new_zeros(more, *step.shape[1:])]) for step in steps[begun:]]
            for name, steps in self._heard.items()
        }
        self._added -= begun
        self.numbers = torch.cat([self.numbers, torch.arange(self._next, self._next + more)])
        self._next += more
        self._first = torch.cat([self._first - begun, new + self._added])
        self.counts, self._limits = torch.cat([self.counts, new]), torch.cat([self._limits, limits])
        self.alive, self._stopped = torch.cat([self.alive, new == 0]), torch.cat([self._stopped, new != 0])
