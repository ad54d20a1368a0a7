"""The passes over a rollout: which are of policy and critic together, which of the critic alone, and their minibatches."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from lightrl.algorithms.algorithm import Algorithm
from lightrl.ops.batching import minibatches
from lightrl.ops.random import row_seed
from lightrl.types import TrainingBatch


def critic_warms_up(algorithm: Algorithm, rollout: int) -> bool:
    """Whether this rollout, counted from 0, trains the critic alone."""
    return algorithm.critic is not None and rollout < algorithm.critic.warmup_rollouts


def joint_passes(algorithm: Algorithm, rollout: int) -> range:
    """Numbers of the passes of policy and critic together over a rollout, counted from 0."""
    return range(0 if critic_warms_up(algorithm, rollout) else algorithm.epochs)


def critic_passes(algorithm: Algorithm, rollout: int) -> range:
    """Numbers of the passes of the critic alone, which come after the joint ones and in place of them while the critic warms up."""
    extra = 0 if algorithm.critic is None else algorithm.critic.extra_epochs
    first = len(joint_passes(algorithm, rollout))
    return range(first, algorithm.epochs + extra)


def minibatches_of(batch: TrainingBatch, passes: range, count: int, seed: int, rollout: int) -> Iterator[TrainingBatch]:
    """Minibatches of whole groups, shuffled anew in each pass.

    Args:
        batch: a whole rollout of this rank.
        passes: over it.
        count: minibatches in each pass.
        seed: of the shuffles.
        rollout: its number.
    """
    for number in passes:
        generator = torch.Generator().manual_seed(row_seed(seed, rollout, number))
        for rows in minibatches(batch.group, count, generator):
            yield batch.select(rows)
