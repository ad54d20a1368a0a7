"""Given completions, scored by the rewards of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from lightrl.rewards.findings import Findings
from lightrl.rewards.gates import row_values
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


def score_completions(rewards: RewardSet, completions: GivenCompletions, encode: Encode | None = None) -> Iterator[Findings]:
    """Score completions as a run would, some whole groups at a time.

    Args:
        rewards: with their weights, gates, normalisations, limits and caches.
        completions: N of them.
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
