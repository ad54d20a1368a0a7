"""The state of parts, rewards and rollouts in a checkpoint: tensors and JSON values, per rank where it differs."""

from __future__ import annotations

from typing import Any

from lightrl.training.online.policy_learner import PolicyLearner
from lightrl.training.online.rollout_collector import RolloutCollector


def run_state_of(learner: PolicyLearner, collector: RolloutCollector) -> dict[str, Any]:
    """Everything that must survive a restart beside weights, optimizer and loops; collective.

    Args:
        learner: the state of its algorithm's parts, that of every rank where a part says that it differs, and its sums over all rollouts.
        collector: the state of its rewards, each rank's own too; on every rank its random numbers, and rollouts still to be learnt from.
    """
    algorithm, rewards, gather = learner.algorithm, collector.rewards, learner.adapter.gather
    return {
        "algorithm": algorithm.state_dict(),
        "algorithm_per_rank": gather(algorithm.state_dict(per_rank=True)),
        "rewards": rewards.state_dict(),
        "rewards_per_rank": gather(rewards.state_dict(per_rank=True)),
        "rollouts": gather(collector.rollouts.state_dict()),
        "ahead": gather(collector.ahead.state_dict()),
        "progress": learner.progress.state_dict(),
    }


def load_run_state(state: dict[str, Any], learner: PolicyLearner, collector: RolloutCollector) -> None:
    """Take back what the parts and rewards need to go on learning.

    Raises:
        ValueError: something was kept per rank, and there were another number of ranks.
    """
    rank, ranks = learner.adapter.rank, learner.adapter.world_size
    states, of_ranks, made = state["algorithm_per_rank"], state["rewards_per_rank"], state["ahead"]
    kept = [f"model.algorithm.{slot}" for slot in sorted({slot for one in states for slot in one})]
    kept += ["model.rollouts_ahead"] if any(made) else []
    if kept and len(states) != ranks:
        raise ValueError(
            f"the checkpoint holds what each of {len(states)} ranks kept for {kept[0]}, and this run has {ranks}: "
            "resume with as many ranks, or start a new run from the checkpoint's weights"
        )
    learner.algorithm.load_state_dict(state["algorithm"] | states[rank % len(states)])
    # a new rank takes the history of another one
    collector.rewards.load_state_dict(state["rewards"] | of_ranks[rank % len(of_ranks)])
    collector.ahead.load_state_dict(made[rank % len(made)])
    learner.progress.load_state_dict(state["progress"])
