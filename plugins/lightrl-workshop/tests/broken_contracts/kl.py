"""One class for each check of the contract of KLs, which breaks that check."""

from __future__ import annotations

from typing import Any

from broken_contracts.wrong import per_token, wrong

from lightrl import KLPenalty

KIND = "KL"


class ForgetfulKL(KLPenalty):
    """Broken on purpose."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.loss_coefficient = 7.0


always = property(lambda self: frozenset({"ref_logprobs"}))
BROKEN = per_token(KLPenalty, "penalty") | {
    "there is no penalty between equal policies": wrong(KLPenalty, penalty=lambda self, new, other, log_ratio: new),
    "with coefficients of 0 it needs nothing, otherwise the policy that it is measured against": wrong(KLPenalty, needs=always),
    "the state of its controller survives a restart": ForgetfulKL,
}
