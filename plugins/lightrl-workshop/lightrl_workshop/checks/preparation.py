"""The check of what a part prepares for an optimizer step: neither order, padding nor ranks have an influence."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from lightrl.parts.step_part import StepPart
from lightrl.ranks import Ranks
from lightrl.types import TrainingBatch
from lightrl_workshop.checks.check import expect, expect_same
from lightrl_workshop.checks.examples import brief, experiences, poisoned, read_extras, shuffled
from lightrl_workshop.checks.steps import minibatch
from lightrl_workshop.ranks import on_ranks


def check_preparation(part: StepPart) -> None:
    """Prepare for the same step in another order, with padding, with NaN at masked positions, and by two ranks."""
    for rows in experiences():
        rows.extras = read_extras(part, rows, rows.old_logprobs)
        whole, width = prepared(part, rows), rows.input_ids.shape[1]
        expect(whole.keys() == part.prepares, f"it prepares {sorted(whole)}, and says {sorted(part.prepares)}")
        order = shuffled(len(rows))
        first = [i for i in range(len(rows)) if rows.group[i] == rows.group[0]]
        shares = [first, [i for i in range(len(rows)) if i not in first]]

        def of_rank(rank: int, ranks: Ranks, rows: TrainingBatch = rows, shares: list[list[int]] = shares) -> dict[str, Tensor]:
            return prepared(part, rows.select(shares[rank]), ranks)

        together = on_ranks(2, of_rank)
        seen = replace(poisoned(rows), token_weight=rows.token_weight)
        for name, values in whole.items():
            expect(values.shape[0] == len(rows), f"{name} has the shape {list(values.shape)}, of {len(rows)} rows", **brief(rows))
            found = {
                "rows in another order": (values[order], prepared(part, rows.select(order))[name]),
                "three padded positions": (values, cut(prepared(part, rows.padded(width + 3))[name], width)),
                "NaN at masked positions": (values, prepared(part, seen)[name]),
                "two ranks": (values[shares[0] + shares[1]], torch.cat([found[name] for found in together])),
            }
            for what, (one, other) in found.items():
                expect_same(one.double(), other.double(), f"{what} change what it prepares as {name}", **brief(rows))


def prepared(part: StepPart, rows: TrainingBatch, *ranks: Ranks) -> dict[str, Tensor]:
    """The numbers that it prepares, 0 where there is no loss."""
    step = minibatch(part, rows, *ranks)
    return {name: torch.where(step.mask, value, 0) if value.dim() > 1 else value for name, value in part.prepare(step).items()}


def cut(values: Tensor, width: int) -> Tensor:
    """The first positions."""
    return values[:, :width] if values.dim() > 1 else values
