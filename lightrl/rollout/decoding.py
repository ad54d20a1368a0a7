"""The decode loop: sample a token per row, look who is finished, drop finished rows, feed the rest."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from lightrl.ops.random import uniforms
from lightrl.ops.sampling import sample
from lightrl.parts.engine import Sampling
from lightrl.rollout.incremental import IncrementalModel
from lightrl.rollout.stops import StopStrings

COMPACTION_COST = 0.5
"""The cost of keeping a row when others are dropped (its cache is copied), in forward passes of one row."""
UNIFORMS_AT_ONCE = 64
"""Random numbers made ahead for each row."""
LOOKED_AT_ONCE = 16
"""Tokens of a row that an accelerator samples between two looks: each look waits for it."""


def tokens_between_looks(device: torch.device) -> int:
    """Tokens of a row after which the loop looks who is finished; what a row is fed beyond its end is dropped."""
    return 1 if device.type == "cpu" else LOOKED_AT_ONCE


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


class Decoding:
    """Decodes one batch of rows to their ends."""

    def __init__(self, model: IncrementalModel, sampling: Sampling, ends: Collection[int], stops: StopStrings | None) -> None:
        """
        Args:
            model: the incremental model.
            sampling: how tokens are drawn; its `max_new_tokens` is not read here.
            ends: ids that end a completion.
            stops: watches for stop strings; None if there are none.
        """
        self._model, self._sampling, self._ends, self._stops = model, sampling, torch.tensor(sorted(ends)), stops

    def run(self, logits: Tensor, seeds: Tensor, limits: Tensor) -> Iterator[list[DecodedRow]]:
        """The rows as they leave the batch.

        Args:
            logits: `[n, V]` of the first tokens.
            seeds: `[n]` int64, of each row's random numbers.
            limits: `[n]` int64 on the host, the most tokens each row may get; at least 1.
        """
        rows = _Rows(limits)
        drawn: list[tuple[Tensor, Tensor]] = []
        between = tokens_between_looks(logits.device)
        step, waste = 0, 0
        while True:
            if step % UNIFORMS_AT_ONCE == 0:
                uniform = uniforms(seeds, step, UNIFORMS_AT_ONCE)
            tokens, logprobs = self._draw(logits, uniform[:, step % UNIFORMS_AT_ONCE])
            drawn.append((tokens, logprobs))
            step += 1
            if len(drawn) == between or step == rows.longest:
                self._look(rows, drawn)
                remaining = int(rows.alive.sum())
                if not remaining:
                    yield rows.gone()
                    return
                waste += len(drawn) * (len(tokens) - remaining)
                drawn = []
                if waste >= COMPACTION_COST * remaining:
                    yield rows.gone()
                    kept = rows.keep_alive().to(logits.device)
                    self._model.keep(kept)
                    tokens, uniform, seeds, waste = tokens[kept], uniform[kept], seeds[kept], 0
            logits = self._model.step(tokens)

    def _draw(self, logits: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
        s = self._sampling
        return sample(logits, uniform, s.temperature, s.top_k, s.top_p, s.min_p)

    def _look(self, rows: _Rows, drawn: list[tuple[Tensor, Tensor]]) -> None:
        # one copy: float64 holds every id and every log-prob
        found = torch.stack([torch.stack([tokens.double(), logprobs.double()]) for tokens, logprobs in drawn]).cpu()
        for tokens, logprobs in zip(found[:, 0].long(), found[:, 1], strict=True):
            rows.add(tokens, logprobs, self._ended(tokens, rows))

    def _ended(self, tokens: Tensor, rows: _Rows) -> Tensor:
        """`[n]` bool: rows that end with this token, if they are still alive."""
        ended = torch.isin(tokens, self._ends)
        if self._stops is not None:
            living = zip(rows.numbers.tolist(), tokens.tolist(), rows.alive.tolist(), strict=True)
            ended |= torch.tensor([alive and self._stops.seen(row, token) for row, token, alive in living])
        return ended


class _Rows:
    """The rows of the batch, in its order and on the host: what was sampled in each, and whether it goes on."""

    def __init__(self, limits: Tensor) -> None:
        self.numbers = torch.arange(len(limits))
        self.alive = torch.ones_like(self.numbers, dtype=torch.bool)
        self._limits = limits
        self._stopped = ~self.alive
        self._counts = torch.zeros_like(self.numbers)
        self._added = 0
        # a column per row: a step is written at once
        self._tokens = self.numbers.new_zeros(UNIFORMS_AT_ONCE, len(limits))
        self._logprobs = torch.zeros(self._tokens.shape, dtype=torch.float32)

    @property
    def longest(self) -> int:
        """Tokens after which no row is left, at the latest."""
        return int(self._limits[self.alive].max())

    def add(self, tokens: Tensor, logprobs: Tensor, ended: Tensor) -> None:
        if self._added == len(self._tokens):
            self._tokens, self._logprobs = (torch.cat([part, torch.zeros_like(part)]) for part in (self._tokens, self._logprobs))
        self._tokens[self._added], self._logprobs[self._added] = tokens, logprobs
        self._added += 1
        self._counts += self.alive
        self._stopped |= ended & self.alive
        self.alive = self.alive & ~ended & (self._limits > self._added)

    def gone(self) -> list[DecodedRow]:
        places = (~self.alive).nonzero()[:, 0]
        counts = self._counts[places]
        width = int(counts.max())
        columns = (
            self.numbers[places],
            places,
            self._tokens[:width, places].T,
            self._logprobs[:width, places].T,
            counts,
            self._stopped[places],
        )
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return [DecodedRow(row, place, tokens[:n], logprobs[:n], stopped) for row, place, tokens, logprobs, n, stopped in rows]

    def keep_alive(self) -> Tensor:
        """Forget the rows that are gone; `[m]` places of those that stay."""
        kept = self.alive.nonzero()[:, 0]
        self.numbers, self._limits, self._counts = self.numbers[kept], self._limits[kept], self._counts[kept]
        self.alive, self._stopped = self.alive[kept], self._stopped[kept]
        self._tokens, self._logprobs = self._tokens[:, kept], self._logprobs[:, kept]
        return kept
