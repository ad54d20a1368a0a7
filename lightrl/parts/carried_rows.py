"""Scored rows that outlive their rollout: to and from tensors and JSON values, so that a checkpoint can hold them."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import torch

from lightrl.types import Episode, Prompt, ScoredRollout


def to_state(scored: ScoredRollout) -> dict[str, Any]:
    """Every field by name, prompts as JSON values and tensors on the CPU."""
    state = {f.name: getattr(scored.to("cpu"), f.name) for f in fields(ScoredRollout)}
    prompts, episodes = scored.prompts, scored.episodes
    return state | {"prompts": [prompt.to_json() for prompt in prompts], "episodes": [episode.to_json() for episode in episodes]}


def from_state(state: dict[str, Any]) -> ScoredRollout:
    """The inverse of `to_state`."""
    prompts, episodes = map(Prompt.from_json, state["prompts"]), map(Episode.from_json, state["episodes"])
    return ScoredRollout(**state | {"prompts": list(prompts), "episodes": list(episodes)})


def trimmed(scored: ScoredRollout) -> ScoredRollout:
    """The same rows without padding that none of them needs."""
    return scored.padded(max(int(scored.lengths.max()), 1)) if len(scored) else scored


def of_groups(scored: ScoredRollout, groups: list[int]) -> ScoredRollout:
    """The rows of these groups, in this order of groups, which are renumbered from 0."""
    rows = [(scored.group == number).nonzero()[:, 0] for number in groups]
    chosen = scored.select(torch.cat(rows) if rows else [])
    numbers = [torch.full_like(index, i) for i, index in enumerate(rows)]
    chosen.group = torch.cat(numbers).to(scored.group) if numbers else chosen.group
    return trimmed(chosen)


def joined(batches: list[ScoredRollout]) -> ScoredRollout:
    """All rows of several batches whose groups are numbered from 0, numbered on."""
    first, numbered = 0, []
    for batch in batches:
        copy = batch.select(range(len(batch))).to(batches[-1].group.device)
        copy.group = copy.group + first
        first += len(torch.unique(batch.group))
        numbered.append(copy)
    return ScoredRollout.concat(numbered)
