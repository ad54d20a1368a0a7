"""Completions of a policy in a test, without a run."""

from __future__ import annotations

from lightrl.parts.engine import RolloutEngine
from lightrl.parts.environment import Environment, SingleTurn
from lightrl.policy.policy import Policy
from lightrl.policy.weights import TrainerWeights
from lightrl.rollout.decode.transformers_engine import TransformersEngine
from lightrl.rollout.loop import RolloutLoop


def rollouts_with(
    policy: Policy, engine: RolloutEngine | None = None, environment: Environment | None = None, version: int = 0
) -> RolloutLoop:
    """The loop of a run, whose engine has a policy's weights: `rollouts_with(policy).rollout(prompts, n)`.

    Args:
        policy: to be sampled from.
        engine: None: a `TransformersEngine`.
        environment: None: nobody answers.
        version: of the weights.
    """
    rollouts = RolloutLoop(engine or TransformersEngine(), environment or SingleTurn())
    rollouts.update_weights(TrainerWeights(policy), version)
    return rollouts
