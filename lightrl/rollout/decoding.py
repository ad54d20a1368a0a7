"""The decode loop: sample a token per row, find out who is finished, drop finished rows, feed the rest."""

from __future__ import annotations

from collections.abc import Iterator
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

    def __init__(self, model: IncrementalModel, sampling: Sampling, eos: Tensor, stops: StopStrings | None) -> None:
        """
        Args:
            model: the incremental model.
            sampling: how tokens are drawn; its `max_new_tokens` is not read here.
            eos: `[E]` int64, the ids that end a completion.
            stops: watches for stop strings; None if there are none.
        """
        self._model, self._sampling, self._eos, self._stops = model, sampling, eos, stops

    def run(self, logits: Tensor, seeds: Tensor, limits: Tensor) -> Iterator[list[DecodedRow]]:
        """The rows as they leave the batch.

        Args:
            logits: `[n, V]` of the first tokens.
            seeds: `[n]` int64, of each row's random numbers.
            limits: `[n]` int64, the most tokens each row may get; at least 1.
        """
        rows = _Rows(seeds, limits)
        step, waste = 0, 0
        while True:
            if step % UNIFORMS_AT_ONCE == 0:
                uniform = uniforms(rows.seeds, step, UNIFORMS_AT_ONCE)
            tokens, logprobs = self._draw(logits, uniform[:, step % UNIFORMS_AT_ONCE])
            ended = self._ended(tokens, rows.numbers, rows.alive)
            rows.add(step, tokens, logprobs, ended)
            step += 1
            remaining = int(rows.alive.sum())
            if not remaining:
                yield rows.gone()
                return
            waste += len(tokens) - remaining
            if waste >= COMPACTION_COST * remaining:
                yield rows.gone()
                kept = rows.alive.nonzero()[:, 0]
                self._model.keep(kept)
                rows.keep(kept)
                tokens, uniform, waste = tokens[kept], uniform[kept], 0
            logits = self._model.step(tokens)

    def _draw(self, logits: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
        s = self._sampling
        return sample(logits, uniform, s.temperature, s.top_k, s.top_p, s.min_p)

    def _ended(self, tokens: Tensor, rows: Tensor, alive: Tensor) -> Tensor:
        """`[n]` bool: rows still alive that end with this token."""
        ended = (tokens[:, None] == self._eos).any(1)
        if self._stops is not None:
            seen = [a and self._stops.seen(r, t) for r, t, a in zip(rows.tolist(), tokens.tolist(), alive.tolist(), strict=True)]
            ended |= torch.tensor(seen, device=tokens.device)
        return ended & alive


class _Rows:
    """The rows of the batch, in its order: what was sampled in each, and whether it goes on."""

    def __init__(self, seeds: Tensor, limits: Tensor) -> None:
        self.numbers = torch.arange(len(seeds), device=seeds.device)
        self.seeds, self._limits = seeds, limits
        self.alive = torch.ones_like(self.numbers, dtype=torch.bool)
        self._stopped = ~self.alive
        self._counts = torch.zeros_like(self.numbers)
        # a column per row: a step is written at once
        self._tokens = self.numbers.new_zeros(UNIFORMS_AT_ONCE, len(seeds))
        self._logprobs = torch.zeros(self._tokens.shape, dtype=torch.float32, device=seeds.device)

    def add(self, step: int, tokens: Tensor, logprobs: Tensor, ended: Tensor) -> None:
        if step == len(self._tokens):
            self._tokens, self._logprobs = (torch.cat([part, torch.zeros_like(part)]) for part in (self._tokens, self._logprobs))
        self._tokens[step], self._logprobs[step] = tokens, logprobs
        self._counts += self.alive
        self._stopped |= ended
        self.alive = self.alive & ~ended & (self._limits > step + 1)

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

    def keep(self, kept: Tensor) -> None:
        self.numbers, self.seeds, self._limits = self.numbers[kept], self.seeds[kept], self._limits[kept]
        self.alive, self._stopped, self._counts = self.alive[kept], self._stopped[kept], self._counts[kept]
        self._tokens, self._logprobs = self._tokens[:, kept], self._logprobs[:, kept]
