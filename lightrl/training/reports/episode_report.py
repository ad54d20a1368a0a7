"""The numbers of episodes: turns, tokens by author, seconds and failures of the environment, what it counts itself."""

from __future__ import annotations

import torch

from lightrl.parts.environment import Environment
from lightrl.training.reports.statistics import StatisticsLedger
from lightrl.types import Rollout

ENDS = ("stop", "length", "turns", "failed")
"""Finish reasons of episodes."""


def report_episodes(ledger: StatisticsLedger, rollout: Rollout, environment: Environment) -> None:
    """Report how the episodes went; nothing for completions that nobody answers.

    `episodes/turns`: means per episode, and the largest. `episodes/tokens`, `episodes/tokens_of_others`: sampled by the policy, and written
    by others after the opening. `episodes/read`: tokens that the engine read, as a multiple of the row's length. `episodes/ended_...`:
    shares of finish reasons. `environment/failed`, `environment/timeout`: shares of episodes. `environment/seconds`: per episode.
    `special_tokens`: spelled by data or the environment, and made plain text. `episodes/opened_turns`: the policy wrote the opening of
    another author's turn, as a share of turns. Everything that the environment counts is added up as `environment/NAME`.

    Args:
        ledger: receives the numbers.
        rollout: of this rank, with the records of its episodes.
        environment: that answered.
    """
    episodes = rollout.episodes
    if episodes and any(episode.special for episode in episodes):
        ledger.add("special_tokens", float(sum(episode.special for episode in episodes)), reduce="sum")
    if environment.max_turns == 1 or not episodes:
        return
    turns = torch.tensor([float(episode.turns) for episode in episodes])
    ledger.add("episodes/turns", turns)
    ledger.add("episodes/max_turns", turns, reduce="max")
    ledger.add("episodes/tokens", rollout.response_lengths.double().cpu())
    ledger.add("episodes/tokens_of_others", torch.tensor([float(episode.others) for episode in episodes]))
    ledger.add(
        "episodes/read", torch.tensor([float(episode.read) for episode in episodes]).sum() / rollout.lengths.sum().clamp(min=1).cpu()
    )
    for end in ENDS:
        ledger.add(f"episodes/ended_{end}", torch.tensor([float(reason == end) for reason in rollout.finish_reason]))
    ledger.add("environment/failed", torch.tensor([float(episode.failure is not None) for episode in episodes]))
    ledger.add("environment/timeout", torch.tensor([float(episode.late) for episode in episodes]))
    ledger.add("environment/seconds", torch.tensor([episode.seconds for episode in episodes]))
    ledger.add("episodes/opened_turns", torch.tensor([episode.opened / max(1, episode.turns) for episode in episodes]))
    for name in sorted({name for episode in episodes for name in episode.counts}):
        ledger.add(f"environment/{name}", float(sum(episode.counts.get(name, 0.0) for episode in episodes)), reduce="sum")
