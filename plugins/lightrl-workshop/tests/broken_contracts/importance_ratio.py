"""One class for each check of the contract of importance ratios, which breaks that check."""

from __future__ import annotations

from broken_contracts.wrong import per_token, wrong

from lightrl import TokenRatio

KIND = "importance ratio"

BROKEN = per_token(TokenRatio, "log_ratio") | {
    "the ratio is 1 where the policy has not changed": wrong(TokenRatio, log_ratio=lambda self, new, old, mask: new),
    "the ratio rises with the log-prob of its token": wrong(TokenRatio, log_ratio=lambda self, new, old, mask: old - new),
    "row_constant is declared if and only if all tokens of a row have one ratio": wrong(TokenRatio, row_constant=True),
}
