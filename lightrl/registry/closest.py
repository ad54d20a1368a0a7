"""The known name that a mistyped one is likely to mean."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def closest(name: str, known: Iterable[str]) -> str:
    """` Did you mean 'x'?` if one of the known names is close, else nothing."""
    by_lower = {k.lower(): k for k in known}
    found = difflib.get_close_matches(name.lower(), by_lower, cutoff=0.6)
    # two letters that have changed places are the likeliest slip
    found.sort(key=lambda match: sorted(match) != sorted(name.lower()))
    return f" Did you mean {by_lower[found[0]]!r}?" if found else ""
