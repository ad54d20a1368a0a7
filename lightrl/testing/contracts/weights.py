"""The contract of every token weight and every rollout correction."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from lightrl.parts.base import unpack
from lightrl.testing.contracts.check import Make, contract_check, expect, expect_same, expect_shape, expect_statistics
from lightrl.testing.contracts.per_token import per_token_checks
from lightrl.testing.contracts.rows import brief, experiences, micros, poisoned, shuffled
from lightrl.types import Experience

per_token_checks(
    "rollout correction",
    lambda part, micro: part.weights(micro.old_logprobs, micro.other_logprobs, micro.mask),
    ("old_logprobs", "other_logprobs"),
)


@contract_check("rollout correction", "where engine and trainer agree it changes nothing")
def neutral(make: Make) -> None:
    """Weight 1 at equal log-probs, and never below 0."""
    for micro in micros():
        found, _ = unpack(make().weights(micro.old_logprobs, micro.old_logprobs, micro.mask))
        expect((found[micro.mask] - 1).abs() < 1e-6, "weights must be 1 where the log-probs agree", weights=found, mask=micro.mask)
        off, _ = unpack(make().weights(micro.old_logprobs, micro.other_logprobs, micro.mask))
        expect(off[micro.mask] >= 0, "a weight is negative", weights=off, mask=micro.mask)


@contract_check("rollout correction", "its weights carry no gradient")
def detached(make: Make) -> None:
    """They scale a loss and are not optimised."""
    for micro in micros():
        old = micro.old_logprobs.clone().requires_grad_()
        found, _ = unpack(make().weights(old, micro.other_logprobs, micro.mask))
        expect(not found.requires_grad, "the weights must be detached")


def row_promises(kind: str, ask: Any, signed: bool = False, of: str = "") -> None:
    """Register what a method promises that gives each token of an experience a number.

    Args:
        kind: whose.
        ask: calls the part on an experience; `[N, L]`.
        signed: the numbers may be below 0.
        of: what the promises are about, where a kind has several such methods.
    """

    def value(make: Make, rows: Experience) -> Tensor:
        found, statistics = unpack(ask(make(), rows))
        expect_shape(found, list(rows.response_mask.shape), "its value", **brief(rows))
        expect_statistics(statistics, *rows.response_mask.shape, **brief(rows))
        return torch.where(rows.token_weight > 0, found, 0.0)

    @contract_check(kind, f"{of}{'it gives each token a finite number' if signed else 'weights are finite and never below 0'}")
    def shapes(make: Make) -> None:
        for rows in experiences():
            found = value(make, rows)
            expect(found.isfinite(), "its numbers must be finite", found=found, **brief(rows))
            expect(found >= (-torch.inf if signed else 0.0), "weights must be at least 0", weights=found, **brief(rows))

    @contract_check(kind, f"{of}masked positions and failed rows have no influence")
    def masked(make: Make) -> None:
        for rows in experiences():
            found = value(make, replace(poisoned(rows), token_weight=rows.token_weight))
            expect_same(value(make, rows), found, "NaN at masked positions or failed rows leaks out", **brief(rows))

    @contract_check(kind, f"{of}permuting rows permutes results")
    def permutation(make: Make) -> None:
        for rows in experiences():
            order = shuffled(len(rows))
            found = value(make, rows.select(order))
            expect_same(value(make, rows)[order], found, f"rows in the order {order} get other numbers", **brief(rows))

    @contract_check(kind, f"{of}splitting a batch over ranks changes nothing")
    def ranks(make: Make) -> None:
        for rows in experiences():
            whole = value(make, rows)
            for group in torch.unique(rows.group):
                share = (rows.group == group).nonzero()[:, 0].tolist()
                found = value(make, rows.select(share))
                expect_same(whole[share], found, f"group {int(group)} by itself gets other numbers", **brief(rows))

    @contract_check(kind, f"{of}padding changes nothing")
    def padding(make: Make) -> None:
        for rows in experiences():
            found = value(make, rows.padded(rows.input_ids.shape[1] + 3))[:, : rows.input_ids.shape[1]]
            expect_same(value(make, rows), found, "three padded positions change its numbers", **brief(rows))


row_promises("token weight", lambda part, rows: part.weights(rows))
row_promises("reward shaping", lambda part, rows: part.rewards(rows, rows.token_rewards), signed=True)


@contract_check("reward shaping", "rewards stay on sampled tokens of rows that were scored")
def on_tokens(make: Make) -> None:
    """0 elsewhere."""
    for rows in experiences():
        found, _ = unpack(make().rewards(rows, rows.token_rewards))
        outside = ~(rows.response_mask & rows.scorable[:, None])
        expect(found[outside] == 0, "a reward is paid outside the response or on a row that failed", found=found, **brief(rows))


@contract_check("token weight", "which rows count is decided row by row")
def counts(make: Make) -> None:
    """`[N]` bool, the same in another order."""
    for rows in experiences():
        found, order = make().in_statistics(rows), shuffled(len(rows))
        expect_shape(found, [len(rows)], "in_statistics", **brief(rows))
        expect(found.dtype == torch.bool, f"in_statistics must be bool, got {found.dtype}")
        again = make().in_statistics(rows.select(order))
        expect(again == found[order], "in another order other rows count", in_statistics=found, **brief(rows))
