"""The contract of every importance ratio."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lightrl.parts.base import unpack
from lightrl.testing.contracts.check import Make, contract_check, expect, shown
from lightrl.testing.contracts.per_token import per_token_checks
from lightrl.testing.contracts.rows import Micro, brief, micros

KIND = "importance ratio"

per_token_checks(KIND, lambda part, micro: part.log_ratio(micro.logprobs, micro.old_logprobs, micro.mask), ("logprobs", "old_logprobs"))


@contract_check(KIND, "it is 1 where the policy has not moved")
def one_at_first(make: Make) -> None:
    """Log-ratio 0 on the first pass."""
    for micro in micros():
        found, _ = unpack(make().log_ratio(micro.old_logprobs, micro.old_logprobs, micro.mask))
        expect(found[micro.mask].abs() < 1e-6, "the log-ratio of a policy to itself is not 0", found=found, **brief(micro))


@contract_check(KIND, "it carries the gradient of the log-probs")
def gradient(make: Make) -> None:
    """A likelier token has a larger ratio, and masked tokens get no gradient."""
    for micro in micros():
        slope = _slopes(make(), micro).sum(0)
        expect(slope[micro.mask] > 0, "a token that becomes likelier does not raise the ratio", gradient=slope, **brief(micro))
        expect(slope[~micro.mask] == 0, "a masked position has a gradient", gradient=slope, **brief(micro))


@contract_check(KIND, "row_constant is true")
def row_constant(make: Make) -> None:
    """Declared if and only if all tokens of a row have one ratio."""
    shared = True
    for micro in micros():
        found, _ = unpack(make().log_ratio(micro.logprobs, micro.old_logprobs, micro.mask))
        for i in range(len(micro)):
            same = _equal(found[i][micro.mask[i]])
            expect(same or not make().row_constant, "row_constant is declared, but tokens of a row differ", found=found, **brief(micro))
            shared = shared and same
    expect(not shared or make().row_constant, "all tokens of a row have one ratio, so declare row_constant = True")


def _slopes(part: Any, micro: Micro) -> Tensor:
    """`[tokens with a loss, n, L]`: gradient of each token's log-ratio with respect to every log-prob."""
    logprobs = micro.logprobs.clone().requires_grad_()
    found, _ = unpack(part.log_ratio(logprobs, micro.old_logprobs, micro.mask))
    expect(found.requires_grad, "the log-ratio carries no gradient", found=shown(found))
    rows = [torch.autograd.grad(value, logprobs, retain_graph=True)[0] for value in found[micro.mask]]
    return torch.stack(rows) if rows else torch.zeros(0, *logprobs.shape)


def _equal(values: Tensor) -> bool:
    return len(values) < 2 or bool((values - values[0]).abs().max() < 1e-6)
