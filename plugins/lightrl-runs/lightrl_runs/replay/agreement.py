"""Whether a replay with the run's own algorithm finds the run's numbers again, and where it first does not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lightrl_runs.records.fingerprints import fingerprints
from lightrl_runs.records.record import Record, same
from lightrl_runs.replay.outcome import Outcome

TIMES = ("perf/", "progress/seconds")
"""Numbers that no replay has again begin with one of these."""
OF_A_RANK = ("/std", "_std", "/share", "correction/ess", "length_reward_correlation", "explained_variance")
"""Numbers of each rank's own rows, averaged over ranks, end with one of these: one process with all rows has others."""
CLOSE = 1e-6
"""Relative to the number, or to 1 where it is smaller: what the order of adding up explains, of one process in place of several."""
COMPUTED = {
    "old_logprobs": "old log-probs",
    "ref_logprobs": "log-probs of the reference",
    "values": "values of the critic",
    "token_rewards": "rewards on tokens",
    "token_weight": "token weights",
    "advantages": "advantages",
    "returns": "returns",
}
"""What is computed before the first step, in words."""


@dataclass(frozen=True)
class Agreement:
    """The comparison of a replay with its run."""

    exact: bool
    """Compared to the bit; else up to rounding."""
    compared: int
    """How many numbers the run logged that the replay has too."""
    others: int
    """How many numbers were not compared: of the generation, and times."""
    first: str | None
    """What differs first, in the order of computing; None: nothing."""
    differing: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """By name: the run's number and the replay's."""
    steps: bool = True
    """The steps were replayed."""

    @property
    def holds(self) -> bool:
        """Nothing differs."""
        return self.first is None and not self.differing


def agreement(records: Sequence[Record], outcome: Outcome, processes: int, steps: bool) -> Agreement:
    """Compare a replay with its run.

    Args:
        records: of all ranks.
        outcome: of the run's own algorithm.
        processes: that shared the replay.
        steps: the replay made them; else it ended before the first.
    """
    exact, run = processes == len(records), records[0].notes.numbers
    kept = () if exact else OF_A_RANK
    numbers = {name: value for name, value in outcome.numbers.items() if name in run and not name.startswith(TIMES)} if steps else {}
    numbers = {name: value for name, value in numbers.items() if not name.endswith(kept)}
    differing = {name: (run[name], value) for name, value in numbers.items() if not (same if exact else _close)(run[name], value)}
    first = _first_computed(records[0], outcome) if exact else None
    if first is None and differing:
        first = "the numbers of the steps" if steps else "the numbers"
    return Agreement(exact, len(numbers), len(run) - len(numbers), first, differing, steps)


def _first_computed(record: Record, outcome: Outcome) -> str | None:
    run, mine = record.notes.fingerprints, fingerprints(outcome.batch)
    return next((COMPUTED[name] for name in run if mine.get(name) != run[name]), None)


def _close(one: float, other: float) -> bool:
    return same(one, other) or math.isclose(one, other, rel_tol=CLOSE, abs_tol=CLOSE)
