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
        rows = torch.arange(len(seeds), device=seeds.device)
        stopped = torch.zeros_like(rows, dtype=torch.bool)
        alive, uniform = ~stopped, uniforms(seeds, 0, UNIFORMS_AT_ONCE)
        sampled = _SampledTokens(rows)
        step, waste = 0, 0
        while True:
            tokens, logprobs = self._draw(logits, uniform[:, step % UNIFORMS_AT_ONCE])
            sampled.add(tokens, logprobs, alive)
            step += 1
            ended = self._ended(tokens, sampled.rows, alive)
            stopped[sampled.rows] |= ended
            alive = alive & ~ended & (limits[sampled.rows] > step)
            remaining = int(alive.sum())
            if not remaining:
                yield sampled.leaving(~alive, stopped)
                return
            waste += len(alive) - remaining
            if waste >= COMPACTION_COST * remaining:
                yield sampled.leaving(~alive, stopped)
                kept = alive.nonzero()[:, 0]
                self._model.keep(kept)
                sampled.keep(kept)
                tokens, alive, uniform, waste = tokens[kept], alive[kept], uniform[kept], 0
            if step % UNIFORMS_AT_ONCE == 0:
                uniform = uniforms(seeds[sampled.rows], step, UNIFORMS_AT_ONCE)
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


class _SampledTokens:
    """What was sampled so far: whole for rows of all steps, and step by step since the batch last changed."""

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows
        self._tokens = rows.new_zeros(len(rows), UNIFORMS_AT_ONCE)
        self._logprobs = torch.zeros(len(rows), UNIFORMS_AT_ONCE, dtype=torch.float32, device=rows.device)
        self._counts = torch.zeros_like(rows)
        self._begin = 0
        self._steps: list[tuple[Tensor, Tensor, Tensor]] = []

    def add(self, tokens: Tensor, logprobs: Tensor, alive: Tensor) -> None:
        self._steps.append((tokens, logprobs, alive))

    def leaving(self, gone: Tensor, stopped: Tensor) -> list[DecodedRow]:
        self._write()
        places = gone.nonzero()[:, 0]
        rows = self.rows[places]
        numbers = zip(places.tolist(), rows.tolist(), self._counts[rows].tolist(), stopped[rows].tolist(), strict=True)
        tokens, logprobs = self._tokens[rows].tolist(), self._logprobs[rows].tolist()
        return [DecodedRow(row, place, tokens[i][:count], logprobs[i][:count], stop) for i, (place, row, count, stop) in enumerate(numbers)]

    def keep(self, kept: Tensor) -> None:
        self.rows = self.rows[kept]

    def _write(self) -> None:
        end = self._begin + len(self._steps)
        if end > self._tokens.shape[1]:
            more = max(end, 2 * self._tokens.shape[1]) - self._tokens.shape[1]
            self._tokens, self._logprobs = (torch.nn.functional.pad(part, (0, more)) for part in (self._tokens, self._logprobs))
        tokens, logprobs, alive = (torch.stack(parts, 1) for parts in zip(*self._steps, strict=True))
        self._tokens[self.rows, self._begin : end] = tokens
        self._logprobs[self.rows, self._begin : end] = logprobs.float()
        self._counts[self.rows] += alive.sum(1)
        self._begin, self._steps = end, []
