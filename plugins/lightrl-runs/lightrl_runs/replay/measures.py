"""Comparisons of replays: with the numbers of the run, and of what tokens, rows, lengths and prompts weigh for two algorithms."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from lightrl_runs.records.record import Record, fingerprints
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
LENGTHS = 4
"""Classes of length, with about as many rows each."""


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

    @property
    def holds(self) -> bool:
        """Nothing differs."""
        return self.first is None and not self.differing


def agreement(records: Sequence[Record], outcome: Outcome, processes: int, steps: bool) -> Agreement:
    """Compare a replay with its run; without `steps` it ended before the first."""
    exact, run = processes == len(records), records[0].notes.numbers
    kept = () if exact else OF_A_RANK
    numbers = {name: value for name, value in outcome.numbers.items() if name in run and not name.startswith(TIMES)} if steps else {}
    numbers = {name: value for name, value in numbers.items() if not name.endswith(kept)}
    differing = {name: (run[name], value) for name, value in numbers.items() if not _same(run[name], value, 0.0 if exact else CLOSE)}
    first = _first_computed(records[0], outcome) if exact else None
    if first is None and differing:
        first = "the numbers of the steps" if steps else "the numbers"
    return Agreement(exact, len(numbers), len(run) - len(numbers), first, differing, steps)


def _same(one: float, other: float, tolerance: float) -> bool:
    """Equal up to the tolerance, relative to the number or to 1 where it is smaller; at 0 to the bit, NaN included."""
    both_nan = math.isnan(one) and math.isnan(other)
    return one == other or both_nan or math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance)


def _first_computed(record: Record, outcome: Outcome) -> str | None:
    run, mine = record.notes.fingerprints, fingerprints(outcome.batch)
    return next((COMPUTED[name] for name in run if mine.get(name) != run[name]), None)


@dataclass(frozen=True)
class Share:
    """A part of the rows, and how much of the gradient is theirs."""

    name: str
    rows: int
    shares: tuple[float, ...]
    """Per algorithm: the sum of |d loss / d log-prob| over its tokens, by that over all tokens; NaN if there is no gradient."""


@dataclass(frozen=True)
class Disagreement:
    """A row that two algorithms pull differently."""

    row: int
    pulls: tuple[float, float]
    """Per algorithm: the sum of its tokens' pulls by that of the sizes of all pulls; above 0 the row is made likelier."""


def weights_of_rows(outcome: Outcome) -> Tensor:
    """`[N]`: each row's share of the gradient of the log-probs; NaN if there is none."""
    sizes = outcome.pulls.abs().sum(1)
    return sizes / sizes.sum()


def by_length(outcomes: list[Outcome]) -> Iterator[Share]:
    """The shares of short and long rows."""
    lengths = outcomes[0].batch.response_lengths
    order = lengths.argsort(stable=True)
    for rows in order.tensor_split(min(LENGTHS, max(len(order), 1))):
        if len(rows):
            low, high = int(lengths[rows].min()), int(lengths[rows].max())
            name = f"{low} tokens" if low == high else f"{low} to {high} tokens"
            yield Share(name, len(rows), _shares(outcomes, rows))


def by_group(outcomes: list[Outcome], most: int) -> list[Share]:
    """The shares of the groups on which the algorithms differ most, or that weigh most where there is one."""
    batch = outcomes[0].batch
    groups = [(int(number), (batch.group == number).nonzero()[:, 0]) for number in torch.unique(batch.group)]
    found = [Share(batch.prompts[int(rows[0])].id, len(rows), _shares(outcomes, rows)) for _, rows in groups]
    spread = (lambda share: share.shares[0]) if len(outcomes) == 1 else (lambda share: abs(share.shares[0] - share.shares[1]))
    return sorted(found, key=spread, reverse=True)[:most]


def disagreements(one: Outcome, other: Outcome, most: int) -> list[Disagreement]:
    """The rows whose tokens two algorithms pull most differently."""
    mine, theirs = (outcome.pulls / outcome.pulls.abs().sum().clamp(min=torch.finfo(torch.float64).tiny) for outcome in (one, other))
    order = (mine - theirs).abs().sum(1).argsort(descending=True, stable=True)[:most]
    return [Disagreement(int(row), (-float(mine[row].sum()), -float(theirs[row].sum()))) for row in order]


def share_of_tokens(outcome: Outcome) -> float:
    """The sampled tokens that have a gradient."""
    mask = outcome.batch.response_mask
    return float(((outcome.pulls != 0) & mask).sum() / mask.sum().clamp(min=1))


def _shares(outcomes: list[Outcome], rows: Tensor) -> tuple[float, ...]:
    return tuple(float(weights_of_rows(outcome)[rows].sum()) for outcome in outcomes)
