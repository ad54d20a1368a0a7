"""The contract of every KL and every KL controller."""

from __future__ import annotations

from typing import Any

from lightrl.parts.base import unpack
from lightrl.testing.contracts.check import Make, contract_check, expect
from lightrl.testing.contracts.common import round_trip
from lightrl.testing.contracts.per_token import per_token_checks
from lightrl.testing.contracts.rows import micros

per_token_checks(
    "KL",
    lambda part, micro: part.penalty(micro.logprobs, micro.other_logprobs, micro.log_ratio),
    ("logprobs", "other_logprobs", "log_ratio"),
)


@contract_check("KL", "there is no penalty between equal policies")
def zero(make: Make) -> None:
    """0 wherever the log-probs agree."""
    for micro in micros():
        found, _ = unpack(make().penalty(micro.logprobs, micro.logprobs, micro.log_ratio))
        expect(found[micro.mask].abs() < 1e-6, "two equal policies are penalised", penalty=found, logprobs=micro.logprobs)


@contract_check("KL", "without a coefficient it needs nothing, and with one what it is measured against")
def honest_needs(make: Make) -> None:
    """Reference log-probs are computed only if a coefficient above 0 asks for them."""
    part = make()
    for loss, reward in ((0.0, 0.0), (0.1, 0.0), (0.0, 0.1)):
        part.loss_coefficient, part.reward_coefficient = loss, reward
        needed = "ref_logprobs" in part.needs
        expected = part.against == "reference" and loss + reward > 0
        what = f"with loss coefficient {loss}, reward coefficient {reward} and against {part.against!r} it "
        expect(needed == expected, f"{what}{'needs' if needed else 'does not need'} the reference")


@contract_check("KL", "its controller's state survives a restart")
def history(make: Make) -> None:
    """What it observed is kept."""
    part = make()
    _observe(part)
    round_trip(part, make())


def _observe(part: Any) -> None:
    for kl in (0.5, 30.0, 8.0):
        part.observe(kl, 256)


@contract_check("KL controller", "a larger KL never gives a smaller coefficient")
def monotone(make: Make) -> None:
    """The factor is above 0 and rises with the KL."""
    factors = [make().factor(kl, 256) for kl in (0.0, 0.1, 1.0, 3.0, 6.0, 9.0, 100.0)]
    expect(all(factor > 0 for factor in factors), "factors must be above 0", factors=factors)
    expect(factors == sorted(factors), "a larger KL must not give a smaller factor", factors=factors)


@contract_check("KL controller", "its history survives a restart")
def controller_history(make: Make) -> None:
    """A new instance that took the state back continues in the same way."""
    part, again = make(), make()
    for kl in (0.5, 30.0):
        part.factor(kl, 256)
    round_trip(part, again)
    one, other = part.factor(8.0, 256), again.factor(8.0, 256)
    expect(one == other, f"after a restart its factor is {other} in place of {one}")
