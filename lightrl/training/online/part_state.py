"""The state of parts, rewards and rollouts in a checkpoint: tensors and JSON values, per rank where it differs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lightrl.algorithms.algorithm import Algorithm
from lightrl.rewards.reward_set import RewardSet
from lightrl.rollout.loop import RolloutLoop
from lightrl.training.online.progress import Progress
from lightrl.training.online.rollouts_ahead import RolloutsAhead


def state_of_parts(
    algorithm: Algorithm,
    rewards: RewardSet,
    rollouts: RolloutLoop,
    ahead: RolloutsAhead,
    progress: Progress,
    gather: Callable[[Any], list[Any]],
) -> dict[str, Any]:
    """Everything that must survive a restart beside weights, optimizer and loops.

    Args:
        algorithm: its parts' state, that of every rank where a part says that it differs.
        rewards: their state, and each rank's own.
        rollouts: their random numbers, on every rank.
        ahead: rollouts that are still to be learnt from, on every rank.
        progress: sums over all rollouts.
        gather: gives what every rank passed to it, in the order of ranks.
    """
    return {
        "algorithm": algorithm.state_dict(),
        "algorithm_per_rank": gather(algorithm.state_dict(per_rank=True)),
        "rewards": rewards.state_dict(),
        "rewards_per_rank": gather(rewards.state_dict(per_rank=True)),
        "rollouts": gather(rollouts.state_dict()),
        "ahead": gather(ahead.state_dict()),
        "progress": progress.state_dict(),
    }


def load_learner_state(
    state: dict[str, Any], algorithm: Algorithm, rewards: RewardSet, ahead: RolloutsAhead, progress: Progress, rank: int, ranks: int
) -> None:
    """Take back what the parts and rewards need to go on learning.

    Raises:
        ValueError: something was kept per rank, and there were another number of ranks.
    """
    states, of_ranks, made = state["algorithm_per_rank"], state["rewards_per_rank"], state["ahead"]
    kept = [f"model.algorithm.{slot}" for slot in sorted({slot for one in states for slot in one})]
    kept += ["model.rollouts_ahead"] if any(made) else []
    if kept and len(states) != ranks:
        raise ValueError(
            f"the checkpoint holds what each of {len(states)} ranks kept for {kept[0]}, and this run has {ranks}: "
            "resume with as many ranks, or start a new run from the checkpoint's weights"
        )
    algorithm.load_state_dict(state["algorithm"] | states[rank % len(states)])
    # a new rank takes the history of another one
    rewards.load_state_dict(state["rewards"] | of_ranks[rank % len(of_ranks)])
    ahead.load_state_dict(made[rank % len(made)])
    progress.load_state_dict(state["progress"])
