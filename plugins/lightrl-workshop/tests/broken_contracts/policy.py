"""One class for each check of the contract of policies, which breaks that check."""

from __future__ import annotations

from broken_contracts.wrong import wrong

from lightrl import TinyPolicy

KIND = "policy"

BROKEN = {
    "it builds the same policy every time, with as many parameters as parameters() says": wrong(TinyPolicy, parameters=lambda self: 7)
}
