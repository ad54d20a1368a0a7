"""The answer of `lightrl reward attack`, printed or as JSON."""

from __future__ import annotations

import math
from typing import Any

from rich.console import Console
from rich.table import Table

from lightrl_attack.outcome import OF_DATA, Earned, Verdict

SHOWN = 60
"""Characters of a completion."""


def as_json(verdict: Verdict) -> dict[str, Any]:
    """Everything as one JSON value, attacks by what they earn."""
    return {
        "own": verdict.own,
        "nothing": verdict.nothing,
        "limit": verdict.limit,
        "thoughts_count": verdict.thoughts_count,
        "holes": [_row(verdict, one) for one in verdict.holes],
        "attacks": [_row(verdict, one) for one in _sorted(verdict)],
    }


def print_report(verdict: Verdict, top: int, key: str) -> None:
    """Print it for a person.

    Args:
        verdict: of all attacks.
        top: how many attacks are shown.
        key: of what was attacked.
    """
    console = Console(markup=False, highlight=False, soft_wrap=True)
    rows = len(verdict.earned[0].totals)
    console.print(f"{key}: {len(verdict.earned)} ways not to do the task, on {rows} prompts\n")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("earned", "share"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("paid by", "reads"):
        table.add_column(name, no_wrap=True)
    table.add_column("what it writes", overflow="fold")
    holes = {id(one) for one in verdict.holes}
    # a thought answer is no attack, and has a sentence of its own
    for one in [one for one in _sorted(verdict) if one.attack.reads != "the answer"][:top]:
        style = "bold" if id(one) in holes else None
        share = verdict.share(one.mean)
        table.add_row(
            f"{one.mean:.3f}", "all" if share == math.inf else f"{share:.2f}", payer(one), one.attack.reads, one.attack.name, style=style
        )
    console.print(table)
    console.print()
    for line in sentences(verdict):
        console.print(line)


def sentences(verdict: Verdict) -> list[str]:
    """The verdict in a few words."""
    whose = verdict.whose[0].upper() + verdict.whose[1:]
    if verdict.own is None:
        most = f"shares are of the largest total of a row, {verdict.best:.3g}"
        way = " in any form" if verdict.whose == OF_DATA else ", or there are none"
        own = f"{whose} earn nothing{way}: {most}." + " Name a column of good completions with --own." * (verdict.whose == OF_DATA)
    else:
        own = f"{whose} earn {verdict.own:.3g}, the empty completion and nonsense {verdict.nothing:.3g}."
    if len(verdict.alone) > 1:
        alone = (f"{name}: {one.paid[name]:.3g} of {earned:.3g}, by {one.attack.name}" for name, (one, earned) in verdict.alone.items())
        own += "\nOf each reward alone, the most that was earned: " + "; ".join(alone) + "."
    holes = verdict.holes
    own += " What was only thought counts as an answer." if verdict.thoughts_count else ""
    if not holes:
        return [own, f"No attack surely earns more than {verdict.limit:g} of that."]
    one = holes[0]
    least = "without reading anything" if one.attack.reads == "nothing" else f"reading {one.attack.reads} alone"
    cheapest = f"Cheapest: {one.attack.name} earns {one.mean:.3g} {least}; {payer(one)} pays it: {_cut(one.attack.completions[0])}"
    return [own, f"{len(holes)} attacks earn more than {verdict.limit:g} of that (95 % sure).", cheapest]


def payer(one: Earned) -> str:
    """The reward that brought most."""
    return max(one.paid, key=lambda name: one.paid[name] if not math.isnan(one.paid[name]) else -math.inf)


def _sorted(verdict: Verdict) -> list[Earned]:
    return sorted(verdict.earned, key=lambda one: -one.mean)


def _row(verdict: Verdict, one: Earned) -> dict[str, Any]:
    share = verdict.share(one.mean)
    return {
        "attack": one.attack.name,
        "family": one.attack.family,
        "reads": one.attack.reads,
        "earned": one.mean if one.mean > -math.inf else None,
        "share": share if math.isfinite(share) else None,
        "paid_by": payer(one),
        "paid": dict(one.paid),
        "completion": one.attack.completions[0][:1000],
    }


def _cut(text: str) -> str:
    quoted = repr(text)
    return quoted if len(quoted) <= SHOWN else f"{quoted[:SHOWN]}..."
