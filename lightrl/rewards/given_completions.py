"""Given completions, scored by the rewards of a run, and the verdicts of all rewards on them, row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from lightrl.ops.moments import row_values
from lightrl.rewards.reward_set import RewardSet
from lightrl.types import Prompt, Rollout

ROWS = 1024
"""Completions that are scored at a time, whole groups: results can be written down as they come."""
Encode = Callable[[Prompt, str, str], tuple[list[int], int]]
"""Token ids of a prompt and its completion, and the position at which the completion begins, given the finish reason."""


@dataclass(frozen=True)
class GivenCompletions:
    """N completions with their prompts."""

    prompts: list[Prompt]
    """N; rows of one group have prompts with the same id."""
    texts: list[str]
    """N completions."""
    finish_reasons: list[str]
    """N, as in `Rollout`."""

    @property
    def group(self) -> list[int]:
        """N numbers of the prompts, in the order in which they first occur."""
        numbers: dict[str, int] = {}
        return [numbers.setdefault(prompt.id, len(numbers)) for prompt in self.prompts]


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


def score_completions(rewards: RewardSet, completions: GivenCompletions, encode: Encode | None = None) -> Iterator[Findings]:
    """Score completions as a run would, some whole groups at a time.

    Args:
        encode: gives the tokens that rewards may look at; None: every completion counts as one token.

    Raises:
        ValueError: a reward returned something of the wrong type or shape.
        RuntimeError: a reward cannot be loaded in its worker process.
    """
    for rows in _chunks(completions.group):
        scoring = rewards.submit(_rollout(completions, rows, encode))
        scored = scoring.result()
        scoring.warn()
        yield Findings(
            rows=rows,
            group=scored.group,
            scorable=scored.scorable,
            raw={name: row_values(part) for name, part in scored.reward_parts.items()},
            outcomes=scored.outcomes,
            contributions=rewards.contributions(scored),
            failures=scoring.failures,
            seconds=scoring.seconds,
            cached=scoring.cached,
            counts=rewards.counts(),
        )


def _chunks(group: Sequence[int]) -> Iterator[list[int]]:
    members: dict[int, list[int]] = {}
    for row, number in enumerate(group):
        members.setdefault(number, []).append(row)
    chunk: list[int] = []
    for rows in members.values():
        chunk += rows
        if len(chunk) >= ROWS:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _rollout(completions: GivenCompletions, rows: list[int], encode: Encode | None) -> Rollout:
    prompts, texts = [completions.prompts[i] for i in rows], [completions.texts[i] for i in rows]
    reasons = [completions.finish_reasons[i] for i in rows]
    encoded = [([0, 0], 1) if encode is None else encode(*row) for row in zip(prompts, texts, reasons, strict=True)]
    starts = torch.tensor([start for _, start in encoded])[:, None]
    ends = torch.tensor([len(ids) for ids, _ in encoded])[:, None]
    width = int(ends.max())
    positions = torch.arange(width)
    group = completions.group
    return Rollout(
        prompts=prompts,
        completions=texts,
        input_ids=torch.tensor([[*ids, *[0] * (width - len(ids))] for ids, _ in encoded]),
        attention_mask=positions < ends,
        response_mask=(positions >= starts) & (positions < ends),
        rollout_logprobs=torch.zeros(len(rows), width),
        group=torch.tensor([group[i] for i in rows]),
        finish_reason=reasons,
        policy_version=torch.zeros(len(rows), dtype=torch.long),
        temperature=1.0,
    )
