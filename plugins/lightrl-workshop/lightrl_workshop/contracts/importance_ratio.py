"""The contract of every importance ratio."""

from __future__ import annotations

import torch
from torch import Tensor

from lightrl.parts.base import unpack
from lightrl.parts.ratio import ImportanceRatio
from lightrl_workshop.checks.check import Make, contract_check_on, expect, shown
from lightrl_workshop.checks.examples import Micro, brief
from lightrl_workshop.checks.steps import micros_for
from lightrl_workshop.checks.token_numbers import Numbers, per_token_checks, row_constant_check

KIND = "importance ratio"


def log_ratio(part: ImportanceRatio, micro: Micro) -> Numbers:
    """The log-ratio of a micro-batch."""
    return part.given(micro.extras).log_ratio(micro.logprobs, micro.old_logprobs, micro.mask)


per_token_checks(KIND, log_ratio, ("logprobs", "old_logprobs"))


@contract_check_on(KIND, "the ratio is 1 where the policy has not changed", micros_for)
def one_at_first(make: Make[ImportanceRatio], micro: Micro) -> None:
    found, _ = unpack(make().given(micro.extras).log_ratio(micro.old_logprobs, micro.old_logprobs, micro.mask))
    expect(found[micro.mask].abs() < 1e-6, "the log-ratio of a policy to itself is not 0", found=found, **brief(micro))


@contract_check_on(KIND, "the ratio rises with the log-prob of its token", micros_for)
def gradient(make: Make[ImportanceRatio], micro: Micro) -> None:
    slope = _slopes(make(), micro).sum(0)
    expect(slope[micro.mask] > 0, "a token that becomes likelier does not raise the ratio", gradient=slope, **brief(micro))
    expect(slope[~micro.mask] == 0, "a masked position has a gradient", gradient=slope, **brief(micro))


row_constant_check(KIND, log_ratio, "ratio")


def _slopes(part: ImportanceRatio, micro: Micro) -> Tensor:
    """`[tokens with a loss, n, L]`: gradient of each token's log-ratio with respect to every log-prob."""
    logprobs = micro.logprobs.clone().requires_grad_()
    found, _ = unpack(part.given(micro.extras).log_ratio(logprobs, micro.old_logprobs, micro.mask))
    expect(found.requires_grad, "the log-ratio carries no gradient", found=shown(found))
    rows = [torch.autograd.grad(value, logprobs, retain_graph=True)[0] for value in found[micro.mask]]
    return torch.stack(rows) if rows else torch.zeros(0, *logprobs.shape)
