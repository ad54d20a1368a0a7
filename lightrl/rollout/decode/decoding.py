"""The decode loop: sample a token per row, look which rows have finished (EOS, a stop string, a limit), drop them, feed the rest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import torch
from torch import Tensor

from lightrl.ops.random import uniforms
from lightrl.ops.sampling import sample
from lightrl.parts.engine import Sampling
from lightrl.rollout.decode.decoding_rows import AdmittedRows, DecodedRow, DecodingRows
from lightrl.rollout.decode.incremental import IncrementalModel
from lightrl.rows import onto

DROP_COST = 4.0
"""The cost of dropping rows, whose places others behind them take, in forward passes of one row."""
HANDOVER_COST = 0.5
"""The cost of each row that stays when rows are handed over, or others are taken in (its cache is copied), in the same."""
UNIFORMS_AT_ONCE = 64
"""Random numbers made ahead for each row."""
LOOKED_AT_ONCE = 16
"""Tokens of a row that an accelerator samples between two looks: each look waits for it."""


def tokens_between_looks(device: torch.device) -> int:
    """Tokens of a row after which the loop looks who is finished; what a row is fed beyond its end is dropped."""
    return 1 if device.type == "cpu" else LOOKED_AT_ONCE


class Decoding:
    """Decodes a batch of rows to their ends."""

    def __init__(self, model: IncrementalModel, sampling: Sampling, ends: Collection[int], stops: StopStrings | None) -> None:
        """`sampling`: how tokens are drawn; its `max_new_tokens` is not read here."""
        self._model, self._sampling, self._ends, self._stops = model, sampling, torch.tensor(sorted(ends)), stops

    def run(self, admit: Callable[[int], AdmittedRows | None]) -> Iterator[list[DecodedRow]]:
        """The rows as they leave the batch; others take their places.

        Args:
            admit: gives rows that join those that are being decoded, whose number it gets, or None; asked at the beginning, and whenever
                finished rows have been dropped.
        """
        admitted = admit(0)
        if admitted is None:
            return
        rows, logits, seeds = DecodingRows(admitted.limits), admitted.logits, admitted.seeds
        drawn: list[tuple[Tensor, Tensor, Mapping[str, Tensor]]] = []
        between = tokens_between_looks(logits.device)
        used, waste = UNIFORMS_AT_ONCE, 0
        while True:
            if used == UNIFORMS_AT_ONCE:
                uniform, used = uniforms(seeds, onto(rows.counts, seeds.device), UNIFORMS_AT_ONCE), 0
            s = self._sampling
            tokens, logprobs = sample(logits, uniform[:, used], s.temperature, s.top_k, s.top_p, s.min_p)
            drawn.append((tokens, logprobs, self._model.heard))
            used += 1
            if len(drawn) == between or len(drawn) == rows.left:
                self._look(rows, drawn)
                remaining = int(rows.alive.sum())
                waste += len(drawn) * (len(tokens) - remaining)
                drawn = []
                if not remaining or waste >= (HANDOVER_COST * remaining if admitted.awaited else DROP_COST):
                    yield rows.gone()
                    stay, waste = rows.keep_alive(), 0
                    kept = onto(stay, logits.device)
                    uniform, seeds = uniform[kept], seeds[kept]
                    if remaining:
                        self._model.keep(stay)
                    logits = self._model.step(tokens[kept]) if remaining else logits[:0]
                    if joining := admit(remaining):
                        logits, seeds = torch.cat([logits, joining.logits]), torch.cat([seeds, joining.seeds])
                        rows.join(joining.limits)
                        admitted, used = joining, UNIFORMS_AT_ONCE
                    elif not remaining:
                        return
                    continue
            logits = self._model.step(tokens)

    def _look(self, rows: DecodingRows, drawn: list[tuple[Tensor, Tensor, Mapping[str, Tensor]]]) -> None:
        # one copy, and one for each name that is recorded: float64 holds every id and every log-prob
        found = torch.stack([torch.stack([tokens.double(), logprobs.double()]) for tokens, logprobs, _ in drawn]).cpu()
        heard = {name: torch.stack([heard[name] for *_, heard in drawn]).cpu() for name in drawn[0][2]}
        for number, (tokens, logprobs) in enumerate(zip(found[:, 0].long(), found[:, 1], strict=True)):
            rows.add(tokens, logprobs, self._ended(tokens, rows), {name: of[number] for name, of in heard.items()})

    def _ended(self, tokens: Tensor, rows: DecodingRows) -> Tensor:
        """`[n]` bool: rows that end with this token, if they are still alive."""
        ended = torch.isin(tokens, self._ends)
        if self._stops is not None:
            living = zip(rows.numbers.tolist(), tokens.tolist(), rows.alive.tolist(), strict=True)
            ended |= torch.tensor([alive and self._stops.seen(row, token) for row, token, alive in living])
        return ended


MARGIN = 4
"""Tokens decoded before the reach of a stop string, so that half a character at the edge cannot hide it."""


class StopStrings:
    """Watches the texts of the rows of one batch.

    Only the last tokens of a row are decoded at each step: a token that decodes to anything adds at least one byte, so a stop string of
    b bytes that has just appeared ends in the last b tokens that are not special.
    """

    def __init__(self, stop: Sequence[str], decode: Callable[[Sequence[int]], str], special: Sequence[int]) -> None:
        """
        Args:
            decode: text of ids, special tokens left out.
            special: ids that `decode` leaves out.
        """
        self._stop, self._decode, self._special = tuple(stop), decode, frozenset(special)
        self._window = max(len(text.encode()) for text in stop) + MARGIN
        self._visible = defaultdict[int, list[int]](list)

    def seen(self, row: int, token: int) -> bool:
        """Take the row's next token; True if its text now contains a stop string."""
        visible = self._visible[row]
        if token in self._special:
            return False
        visible.append(token)
        # the window is the cheap test; the whole text decides
        return self._contains(visible[-self._window :]) and (len(visible) <= self._window or self._contains(visible))

    def _contains(self, ids: list[int]) -> bool:
        text = self._decode(ids)
        return any(stop in text for stop in self._stop)
