"""What every token weight and every rollout correction promises."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from lightrl.parts.base import unpack
from lightrl.testing.promises.per_token import per_token_promises
from lightrl.testing.promises.promise import Make, expect, expect_same, expect_shape, expect_statistics, promise
from lightrl.testing.promises.rows import brief, experiences, micros, poisoned, shuffled
from lightrl.types import Experience

per_token_promises(
    "rollout correction",
    lambda part, micro: part.weights(micro.old_logprobs, micro.other_logprobs, micro.mask),
    ("old_logprobs", "other_logprobs"),
)


@promise("rollout correction", "where engine and trainer agree it changes nothing")
def neutral(make: Make) -> None:
    """Weight 1 at equal log-probs, and never below 0."""
    for micro in micros():
        found, _ = unpack(make().weights(micro.old_logprobs, micro.old_logprobs, micro.mask))
        expect((found[micro.mask] - 1).abs() < 1e-6, "weights must be 1 where the log-probs agree", weights=found, mask=micro.mask)
        off, _ = unpack(make().weights(micro.old_logprobs, micro.other_logprobs, micro.mask))
        expect(off[micro.mask] >= 0, "a weight is negative", weights=off, mask=micro.mask)


@promise("rollout correction", "its weights carry no gradient")
def detached(make: Make) -> None:
    """They scale a loss and are not optimised."""
    for micro in micros():
        old = micro.old_logprobs.clone().requires_grad_()
        found, _ = unpack(make().weights(old, micro.other_logprobs, micro.mask))
        expect(not found.requires_grad, "the weights must be detached")


def row_weight_promises(kind: str, ask: Any) -> None:
    """Register what weights of an experience's tokens promise.

    Args:
        kind: whose.
        ask: calls the part on an experience; `[N, L]`.
    """

    def value(make: Make, rows: Experience) -> Tensor:
        found, statistics = unpack(ask(make(), rows))
        expect_shape(found, list(rows.response_mask.shape), "the weights", **brief(rows))
        expect_statistics(statistics, *rows.response_mask.shape, **brief(rows))
        return torch.where(rows.token_weight > 0, found, 0.0)

    @promise(kind, "weights are finite and never below 0")
    def shapes(make: Make) -> None:
        for rows in experiences():
            found = value(make, rows)
            expect(found.isfinite() & (found >= 0), "weights must be finite and at least 0", weights=found, **brief(rows))

    @promise(kind, "masked positions and failed rows have no influence")
    def masked(make: Make) -> None:
        for rows in experiences():
            found = value(make, replace(poisoned(rows), token_weight=rows.token_weight))
            expect_same(value(make, rows), found, "NaN at masked positions or failed rows leaks out", **brief(rows))

    @promise(kind, "permuting rows permutes weights")
    def permutation(make: Make) -> None:
        for rows in experiences():
            order = shuffled(len(rows))
            found = value(make, rows.select(order))
            expect_same(value(make, rows)[order], found, f"rows in the order {order} weigh something else", **brief(rows))

    @promise(kind, "splitting a batch over ranks changes nothing")
    def ranks(make: Make) -> None:
        for rows in experiences():
            whole = value(make, rows)
            for group in rows.group.unique():
                share = (rows.group == group).nonzero()[:, 0].tolist()
                found = value(make, rows.select(share))
                expect_same(whole[share], found, f"group {int(group)} by itself weighs something else", **brief(rows))

    @promise(kind, "padding changes nothing")
    def padding(make: Make) -> None:
        for rows in experiences():
            found = value(make, rows.padded(rows.input_ids.shape[1] + 3))[:, : rows.input_ids.shape[1]]
            expect_same(value(make, rows), found, "three padded positions change the weights", **brief(rows))


row_weight_promises("token weight", lambda part, rows: part.weights(rows))
