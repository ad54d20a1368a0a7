"""Per-episode and per-turn numbers from the environment, as extras of their rows."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lightrl.ops.turns import turn_numbers
from lightrl.parts.environment import Environment
from lightrl.rollout.episode_state import EpisodeState


def told_extras(episodes: Sequence[EpisodeState], environment: Environment, mask: Tensor) -> dict[str, Tensor]:
    """Every extra that the environment declares, f32, also where no episode was told one.

    Args:
        episodes: that are over.
        environment: declares the names.
        mask: `[N, L]` bool, tokens that the policy sampled.
    """
    whole = {name: torch.tensor([_last(episode, name) for episode in episodes]) for name in sorted(environment.gives_extras)}
    turns = {name: _on_turns(episodes, name, mask) for name in sorted(environment.gives_turn_extras)}
    return whole | turns


def _last(episode: EpisodeState, name: str) -> float:
    return next((told[name] for told in reversed(episode.told) if name in told), 0.0)


def _on_turns(episodes: Sequence[EpisodeState], name: str, mask: Tensor) -> Tensor:
    """`[N, L]`: the number of each turn on its tokens, 0 elsewhere."""
    most = max((len(episode.told) for episode in episodes), default=0)
    numbers = torch.zeros(len(episodes), most + 1)
    for row, episode in enumerate(episodes):
        for turn, told in enumerate(episode.told):
            numbers[row, turn] = told.get(name, 0.0)
    # no turn has the last number, 0, which stands where others wrote
    return numbers.gather(1, turn_numbers(mask) % (most + 1))
