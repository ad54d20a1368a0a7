"""The contract of every rollout correction."""

from __future__ import annotations

from dataclasses import replace

from lightrl.parts.base import unpack
from lightrl.parts.correction import RolloutCorrection
from lightrl_workshop.checks.check import Make, contract_check_on, expect
from lightrl_workshop.checks.examples import Micro
from lightrl_workshop.checks.steps import micros_for, step_of
from lightrl_workshop.checks.token_numbers import Numbers, per_token_checks

KIND = "rollout correction"


def weights(part: RolloutCorrection, micro: Micro) -> Numbers:
    """The weights of a micro-batch."""
    return part.given(micro.extras).weights(micro.old_logprobs, micro.other_logprobs, micro.mask)


per_token_checks(KIND, weights, ("old_logprobs", "other_logprobs"))


@contract_check_on(KIND, "where engine and trainer agree it changes nothing", micros_for)
def neutral(make: Make[RolloutCorrection], micro: Micro) -> None:
    agreed = step_of(make(), replace(micro, other_logprobs=micro.old_logprobs))
    found, _ = unpack(weights(make(), agreed))
    expect((found[micro.mask] - 1).abs() < 1e-6, "weights must be 1 where the log-probs agree", weights=found, mask=micro.mask)
    off, _ = unpack(weights(make(), micro))
    expect(off[micro.mask] >= 0, "a weight is negative", weights=off, mask=micro.mask)


@contract_check_on(KIND, "its weights carry no gradient", micros_for)
def detached(make: Make[RolloutCorrection], micro: Micro) -> None:
    old = micro.old_logprobs.clone().requires_grad_()
    found, _ = unpack(make().given(micro.extras).weights(old, micro.other_logprobs, micro.mask))
    expect(not found.requires_grad, "the weights must be detached")
