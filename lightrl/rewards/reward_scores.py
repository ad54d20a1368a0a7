"""The scores of one reward, checked: a tensor and an outcome per row. A wrong shape is the author's mistake and stops the run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeGuard

import torch
from torch import Tensor

from lightrl.parts.base import FaultyPartError, unpack
from lightrl.rewards.row_call import PlainScore
from lightrl.rows import on_last_token
from lightrl.types import Outcome, Rollout, Statistic, Statistics, WithStatistics
from lightrl.workers.calls import Answer

LARGEST = torch.finfo(torch.float32).max
"""A score beyond it is infinite in the tensor that holds it."""
REPORTED = frozenset(
    ("mean", "std", "weight", "contribution", "share", "failed", "timeout", "abstained", "gated", "cached", "seconds")
)  # fmt: skip
"""Names of the numbers that the core itself reports of every reward."""


@dataclass(frozen=True)
class RewardScores:
    """The scores of one reward for the rows of a rollout."""

    part: Tensor
    """`[N]` or `[N, L]` f32; NaN where there is no score or no step ends."""
    outcome: Tensor
    """`[N]` int64: an `Outcome`."""
    failures: list[str | None]
    """N: for each row that failed, its prompt and the reason."""
    statistics: Statistics = field(default_factory=dict)
    """Numbers that a batch reward reports of the rows that it was asked about; one-dimensional."""


def from_answers(name: str, answers: Sequence[Answer], rollout: Rollout) -> RewardScores:
    """Part and outcomes of a row reward: `[N]` if every score is a number, `[N, L]` if one is a list.

    Raises:
        FaultyPartError: a score is neither a number, nor None, nor a list with one number per response token.
    """
    lengths = rollout.response_lengths.tolist()
    scores = [_score(name, answer.value, row, lengths[row], rollout) for row, answer in enumerate(answers)]
    verdicts = [_verdict(answer, score) for answer, score in zip(answers, scores, strict=True)]
    device = rollout.group.device
    values = torch.tensor(
        [math.nan if isinstance(s, list) or v[0] is not Outcome.VALUE else s for s, v in zip(scores, verdicts, strict=True)]
    )
    part = values.to(torch.float32).to(device)
    if any(isinstance(score, list) for score in scores):
        part = on_last_token(part, rollout.response_mask)
        for row, (score, verdict) in enumerate(zip(scores, verdicts, strict=True)):
            if isinstance(score, list) and verdict[0] is Outcome.VALUE:
                part[row, rollout.response_mask[row]] = torch.tensor(score, dtype=torch.float32, device=device)
    outcome = torch.tensor([int(verdict[0]) for verdict in verdicts], dtype=torch.long, device=device)
    return RewardScores(part, outcome, failures_of(outcome, rollout, [verdict[1] for verdict in verdicts]))


def from_tensor(name: str, returned: Tensor | WithStatistics, rollout: Rollout) -> RewardScores:
    """Part, outcomes and statistics of a batch reward.

    Raises:
        FaultyPartError: it is no `[N]` or `[N, L]` tensor, scores a token outside the response, or has statistics of another shape or
            under a name of the core's.
    """
    value, statistics = unpack(returned)
    rows, width = rollout.input_ids.shape
    if not _is_plain(value) or tuple(value.shape) not in ((rows,), (rows, width)):
        got = f"a {_sort_of(value)}tensor of shape {list(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
        raise FaultyPartError(
            f"reward {name!r} returned {got}, expected a tensor of shape [{rows}] or [{rows}, {width}], one score per row or token"
        )
    part = value.detach().to(rollout.group.device, torch.float32, copy=True)
    if part.dim() == 1:
        failed = ~part.isfinite()
        outcome = torch.where(failed, int(Outcome.ERROR), int(Outcome.VALUE))
    else:
        _check_outside(name, part, rollout)
        part = part.masked_fill(~rollout.response_mask, math.nan)
        failed = part.isinf().any(1)
        outcome = torch.where(part.isnan().all(1), int(Outcome.ABSTAINED), int(Outcome.VALUE)).masked_fill(failed, int(Outcome.ERROR))
    part[failed] = math.nan
    failures = failures_of(outcome, rollout, ["it returned NaN or infinity"] * rows)
    if not isinstance(statistics, Mapping):
        raise FaultyPartError(f"reward {name!r} reports a {type(statistics).__name__}, expected tensors by name")
    return RewardScores(part, outcome, failures, {what: _reported(name, what, number, rollout) for what, number in statistics.items()})


def _is_plain(value: object) -> TypeGuard[Tensor]:
    """Whether it is a tensor of numbers that are there, one beside the other."""
    return isinstance(value, Tensor) and not _sort_of(value)


def _sort_of(value: Tensor) -> str:
    sorts = {"complex ": value.is_complex(), "sparse ": value.layout is not torch.strided, "meta ": value.is_meta}
    return next((sort for sort, found in sorts.items() if found), "")


def all_failed(reason: str, rollout: Rollout) -> RewardScores:
    """A batch reward that raised: no row has a score."""
    part = torch.full((len(rollout),), math.nan, device=rollout.group.device)
    outcome = torch.full((len(rollout),), int(Outcome.ERROR), device=rollout.group.device)
    return RewardScores(part, outcome, failures_of(outcome, rollout, [reason] * len(rollout)))


def filled_in(own: RewardScores, rows: Tensor, rest: RewardScores, mask: Tensor) -> RewardScores:
    """Join the scores of the rows that a reward was asked about with those of the other rows.

    Args:
        own: of n rows.
        rows: `[n]`, which of the N rows they are.
        rest: of N rows, with a part `[N]`.
        mask: `[N, L]` bool, response tokens.
    """
    part = rest.part if own.part.dim() == 1 else on_last_token(rest.part, mask)
    failures = list(rest.failures)
    for row, failure in zip(rows.tolist(), own.failures, strict=True):
        failures[row] = failure
    outcome = rest.outcome.index_copy(0, rows, own.outcome)
    return RewardScores(part.index_copy(0, rows, own.part), outcome, failures, own.statistics)


def _reported(name: str, what: str, number: Tensor | Statistic, rollout: Rollout) -> Statistic:
    statistic = number if isinstance(number, Statistic) else Statistic(number)
    if not _is_plain(statistic.value):
        raise FaultyPartError(f"reward {name!r} reports {what!r} as a {type(statistic.value).__name__}, expected a tensor of real numbers")
    shape, (rows, width) = tuple(statistic.value.shape), rollout.input_ids.shape
    if what in REPORTED:
        raise FaultyPartError(
            f"reward {name!r} reports {what!r}, which every reward has: call it something else than {', '.join(sorted(REPORTED))}"
        )
    if shape not in ((rows,), (rows, width)):
        raise FaultyPartError(f"reward {name!r} reports {what!r} with the shape {list(shape)}, expected [{rows}] or [{rows}, {width}]")
    own = statistic.value.detach().clone()
    # a gate leaves fewer rows than the rollout has, so masks are not left to the ledger
    return replace(statistic, value=own if len(shape) == 1 else own[rollout.response_mask])


def _score(name: str, score: PlainScore, row: int, length: int, rollout: Rollout) -> float | list[float] | None:
    if score is None or isinstance(score, float):
        return score
    where = f"reward {name!r}, row {row} (prompt {rollout.prompts[row].id!r})"
    if isinstance(score, str):
        raise FaultyPartError(f"{where}: got {score}, expected a number, None, or a list with one per response token")
    if len(score) != length:
        raise FaultyPartError(f"{where}: got a list of {len(score)} values, expected {length}, one per response token (EOS included)")
    return [math.nan if value is None else value for value in score]


def _verdict(answer: Answer, score: float | list[float] | None) -> tuple[Outcome, str]:
    if answer.error is not None:
        return Outcome.TIMEOUT if answer.late else Outcome.ERROR, answer.error
    if isinstance(score, list):
        if any(abs(value) > LARGEST for value in score):
            return Outcome.ERROR, "it returned infinity"
        return (Outcome.ABSTAINED if all(map(math.isnan, score)) else Outcome.VALUE), ""
    if score is None:
        return Outcome.ABSTAINED, ""
    return (Outcome.VALUE, "") if abs(score) <= LARGEST else (Outcome.ERROR, f"it returned {score}")


def failures_of(outcome: Tensor, rollout: Rollout, reasons: Sequence[str]) -> list[str | None]:
    """For each row that failed, its prompt and the reason."""
    failed = [kind in (Outcome.ERROR, Outcome.TIMEOUT) for kind in outcome.tolist()]
    rows = zip(failed, rollout.prompts, reasons, strict=True)
    return [f"prompt {prompt.id!r}: {reason}" if bad else None for bad, prompt, reason in rows]


def _check_outside(name: str, part: Tensor, rollout: Rollout) -> None:
    # zeros are let pass: many models fill what they do not score with them
    outside = (~rollout.response_mask & ~part.isnan() & (part != 0)).nonzero()
    if len(outside):
        row, token = outside[0].tolist()
        raise FaultyPartError(
            f"reward {name!r}, row {row} (prompt {rollout.prompts[row].id!r}): got {part[row, token].item():g} at position {token}, "
            "which is no response token; expected NaN outside response_mask"
        )
