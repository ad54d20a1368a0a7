"""One class for each check of the contract of rollout corrections, which breaks that check."""

from __future__ import annotations

from broken_contracts.wrong import per_token, wrong

from lightrl import TruncatedImportance

KIND = "rollout correction"

halved = {"weights": lambda self, old, rollout, mask: 0.5 * (old - rollout).exp().detach()}
attached = {"weights": lambda self, old, rollout, mask: (old - rollout).exp()}
BROKEN = per_token(TruncatedImportance, "weights") | {
    "where engine and trainer agree it changes nothing": wrong(TruncatedImportance, **halved),
    "its weights carry no gradient": wrong(TruncatedImportance, **attached),
}
