"""The contract of every KL controller."""

from __future__ import annotations

from lightrl.parts.kl import KLController
from lightrl_workshop.checks.check import Make, contract_check, expect, round_trip

KIND = "KL controller"


@contract_check(KIND, "a larger KL never gives a smaller coefficient")
def monotone(make: Make[KLController]) -> None:
    factors = [make().factor(kl, 256) for kl in (0.0, 0.1, 1.0, 3.0, 6.0, 9.0, 100.0)]
    expect(all(factor > 0 for factor in factors), "factors must be above 0", factors=factors)
    expect(factors == sorted(factors), "a larger KL must not give a smaller factor", factors=factors)


@contract_check(KIND, "its history survives a restart")
def controller_history(make: Make[KLController]) -> None:
    part, again = make(), make()
    for kl in (0.5, 30.0):
        part.factor(kl, 256)
    round_trip(part, again)
    one, other = part.factor(8.0, 256), again.factor(8.0, 256)
    expect(one == other, f"after a restart its factor is {other} in place of {one}")
