"""The decode loop: sample a token per row, find out who is finished, drop finished rows, feed the rest."""

from __future__ import annotations

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


@dataclass
class DecodedTokens:
    """The sampled tokens of n rows."""

    tokens: Tensor
    """`[n, T]` int64; anything where `mask` is False."""
    logprobs: Tensor
    """`[n, T]` f32."""
    mask: Tensor
    """`[n, T]` bool, a prefix of each row: its tokens."""
    stopped: Tensor
    """`[n]` bool: ended by EOS or a stop string; the others at their limit."""


@dataclass
class _Segment:
    """The steps during which the batch held the same rows."""

    rows: Tensor
    begin: int
    tokens: list[Tensor]
    logprobs: list[Tensor]
    alive: list[Tensor]


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

    def run(self, prompts: list[list[int]], repeats: int, seeds: Tensor, limits: Tensor) -> DecodedTokens:
        """DecodedTokens of every row.

        Args:
            prompts: token ids of B prompts.
            repeats: rows per prompt; n = B * repeats.
            seeds: `[n]` int64, of each row's random numbers.
            limits: `[n]` int64, the most tokens each row may get; at least 1.
        """
        rows = torch.arange(len(seeds), device=seeds.device)
        stopped = torch.zeros_like(rows, dtype=torch.bool)
        alive, uniform = ~stopped, uniforms(seeds, 0, UNIFORMS_AT_ONCE)
        segments = [_Segment(rows, 0, [], [], [])]
        logits = self._model.prefill(prompts, repeats)
        step, waste = 0, 0
        while True:
            segment = segments[-1]
            tokens, logprobs = self._draw(logits, uniform[:, step % UNIFORMS_AT_ONCE])
            segment.tokens.append(tokens)
            segment.logprobs.append(logprobs)
            segment.alive.append(alive)
            step += 1
            ended = self._ended(tokens, segment.rows, alive)
            stopped[segment.rows] |= ended
            alive = alive & ~ended & (limits[segment.rows] > step)
            remaining = int(alive.sum())
            if not remaining:
                return _joined(segments, stopped, step)
            waste += len(alive) - remaining
            if waste >= COMPACTION_COST * remaining:
                kept = alive.nonzero()[:, 0]
                self._model.keep(kept)
                segments.append(_Segment(segment.rows[kept], step, [], [], []))
                tokens, alive, uniform, waste = tokens[kept], alive[kept], uniform[kept], 0
            if step % UNIFORMS_AT_ONCE == 0:
                uniform = uniforms(seeds[segments[-1].rows], step, UNIFORMS_AT_ONCE)
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


def _joined(segments: list[_Segment], stopped: Tensor, steps: int) -> DecodedTokens:
    shape = (len(stopped), steps)
    tokens = torch.zeros(shape, dtype=torch.int64, device=stopped.device)
    logprobs = torch.zeros(shape, dtype=torch.float32, device=stopped.device)
    mask = torch.zeros(shape, dtype=torch.bool, device=stopped.device)
    for segment in segments:
        end = segment.begin + len(segment.tokens)
        tokens[segment.rows, segment.begin : end] = torch.stack(segment.tokens, 1)
        logprobs[segment.rows, segment.begin : end] = torch.stack(segment.logprobs, 1).float()
        mask[segment.rows, segment.begin : end] = torch.stack(segment.alive, 1)
    return DecodedTokens(tokens, logprobs, mask, stopped)
