"""The numbers of a rollout that training and evaluation report: lengths, and how its episodes went."""

from __future__ import annotations

import torch

from lightrl.parts.environment import Environment
from lightrl.training.reports.statistics import Report
from lightrl.types import Rollout

ENDS = ("stop", "length", "turns", "failed")
"""Finish reasons of episodes."""


def report_episodes(rollout: Rollout, environment: Environment) -> Report:
    """How the episodes went; nothing for completions without answers.

    `episodes/turns`: means per episode, and the largest. `episodes/tokens`, `episodes/tokens_of_others`: sampled by the policy, and written
    by others after the opening. `episodes/read`: tokens that the engine read, as a multiple of the row's length. `episodes/ended_...`:
    shares of finish reasons. `environment/failed`, `environment/timeout`: shares of episodes. `environment/seconds`: per episode.
    `special_tokens`: spelled by data or the environment, and made plain text. `episodes/opened_turns`: the policy wrote the opening of
    another author's turn, as a share of turns. Everything that the environment counts is added up as `environment/NAME`.

    Args:
        rollout: of this rank, with the records of its episodes.
        environment: that answered.
    """
    report, episodes = Report(), rollout.episodes
    if episodes and any(episode.special for episode in episodes):
        report.add("special_tokens", float(sum(episode.special for episode in episodes)), reduce="sum")
    if environment.max_turns == 1 or not episodes:
        return report
    turns = torch.tensor([float(episode.turns) for episode in episodes])
    report.add("episodes/turns", turns)
    report.add("episodes/max_turns", turns, reduce="max")
    report.add("episodes/tokens", rollout.response_lengths.double().cpu())
    report.add("episodes/tokens_of_others", torch.tensor([float(episode.others) for episode in episodes]))
    report.add(
        "episodes/read", torch.tensor([float(episode.read) for episode in episodes]).sum() / rollout.lengths.sum().clamp(min=1).cpu()
    )
    for end in ENDS:
        report.add(f"episodes/ended_{end}", torch.tensor([float(reason == end) for reason in rollout.finish_reason]))
    report.add("environment/failed", torch.tensor([float(episode.failure is not None) for episode in episodes]))
    report.add("environment/timeout", torch.tensor([float(episode.late) for episode in episodes]))
    report.add("environment/seconds", torch.tensor([episode.seconds for episode in episodes]))
    report.add("episodes/opened_turns", torch.tensor([episode.opened / max(1, episode.turns) for episode in episodes]))
    for name in sorted({name for episode in episodes for name in episode.counts}):
        report.add(f"environment/{name}", float(sum(episode.counts.get(name, 0.0) for episode in episodes)), reduce="sum")
    return report


def report_lengths(rollout: Rollout) -> Report:
    """Lengths and finish reasons of completions, under the names of the field."""
    report, lengths = Report(), rollout.response_lengths.double()
    report.add("completions/mean_length", lengths)
    report.add("completions/min_length", lengths, reduce="min")
    report.add("completions/max_length", lengths, reduce="max")
    report.add("completions/clipped_ratio", rollout.truncated.double())
    return report
