"""The contract of every KL."""

from __future__ import annotations

from lightrl.parts.base import unpack
from lightrl.parts.kl import KL
from lightrl_workshop.checks.check import Make, contract_check, contract_check_on, expect, round_trip
from lightrl_workshop.checks.examples import Micro, micros
from lightrl_workshop.checks.token_numbers import per_token_checks

KIND = "KL"


per_token_checks(
    KIND,
    lambda part, micro: part.penalty(micro.logprobs, micro.other_logprobs, micro.log_ratio),
    ("logprobs", "other_logprobs", "log_ratio"),
)


@contract_check_on(KIND, "there is no penalty between equal policies", lambda part: micros())
def zero(make: Make[KL], micro: Micro) -> None:
    found, _ = unpack(make().penalty(micro.logprobs, micro.logprobs, micro.log_ratio))
    expect(found[micro.mask].abs() < 1e-6, "two equal policies are penalised", penalty=found, logprobs=micro.logprobs)


@contract_check(KIND, "with coefficients of 0 it needs nothing, otherwise the policy that it is measured against")
def honest_needs(make: Make[KL]) -> None:
    """Reference log-probs are computed only if a coefficient above 0 asks for them."""
    part = make()
    for loss, reward in ((0.0, 0.0), (0.1, 0.0), (0.0, 0.1)):
        part.loss_coefficient, part.reward_coefficient = loss, reward
        needed = "ref_logprobs" in part.needs
        expected = part.against == "reference" and loss + reward > 0
        what = f"with loss coefficient {loss}, reward coefficient {reward} and against {part.against!r} it "
        expect(needed == expected, f"{what}{'needs' if needed else 'does not need'} the reference")


@contract_check(KIND, "the state of its controller survives a restart")
def history(make: Make[KL]) -> None:
    part = make()
    for kl in (0.5, 30.0, 8.0):
        part.observe(kl, 256)
    round_trip(part, make())
