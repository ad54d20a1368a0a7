"""The verdicts of all rewards on given completions, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass
class Findings:
    """The scores of n completions; entry i belongs to row `rows[i]` of the file."""

    rows: list[int]
    """n indices."""
    group: Tensor
    """`[n]` int64."""
    scorable: Tensor
    """`[n]` bool."""
    raw: dict[str, Tensor]
    """Per reward `[n]`: its score, steps added up; NaN without one."""
    outcomes: dict[str, Tensor]
    """Per reward `[n]` int64: an `Outcome`."""
    contributions: dict[str, Tensor]
    """Per reward `[n]`: its part of the total; NaN where the row is not scorable."""
    failures: dict[str, list[str | None]]
    """Per reward n: why there is no score, where it failed."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Per reward, the seconds that scoring waited for it, beyond those for the rewards before it."""
    cached: dict[str, int] = field(default_factory=dict)
    """Per reward, the number of scores that were remembered."""
    counts: dict[str, dict[str, float]] = field(default_factory=dict)
    """Per reward, the numbers that it counts itself, such as the tokens of a judge."""

    @property
    def total(self) -> Tensor:
        """`[n]`: the weighted sum of the rewards, NaN where the row is not scorable."""
        return torch.stack(list(self.contributions.values())).sum(0)

    @classmethod
    def concat(cls, parts: Sequence[Findings]) -> Findings:
        """All of several, in order."""
        first = parts[0]
        return cls(
            rows=[row for part in parts for row in part.rows],
            group=torch.cat([part.group for part in parts]),
            scorable=torch.cat([part.scorable for part in parts]),
            raw={name: torch.cat([part.raw[name] for part in parts]) for name in first.raw},
            outcomes={name: torch.cat([part.outcomes[name] for part in parts]) for name in first.raw},
            contributions={name: torch.cat([part.contributions[name] for part in parts]) for name in first.raw},
            failures={name: [reason for part in parts for reason in part.failures[name]] for name in first.raw},
            seconds={name: sum(part.seconds[name] for part in parts) for name in first.raw},
            cached={name: sum(part.cached[name] for part in parts) for name in first.raw},
            counts={name: _added([part.counts[name] for part in parts]) for name in first.raw},
        )


def _added(counts: Sequence[dict[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for one in counts for name in one)
    return {name: sum(one.get(name, 0.0) for one in counts) for name in names}
