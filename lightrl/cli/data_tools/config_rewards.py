"""The rewards of a config, outside of a run."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from lightrl.config.building import Builder
from lightrl.config.errors import ConfigError
from lightrl.config.missing import refuse_missing_below
from lightrl.config.resolve import Resolved
from lightrl.parts.environment import Environment
from lightrl.rewards.environment_reward import with_environment
from lightrl.rewards.reward_set import RewardSet


@contextmanager
def refused(builder: Builder) -> Iterator[None]:
    """Within, a reward's refusal becomes a short error with its key.

    Args:
        builder: that has built the rewards.

    Raises:
        ConfigError: a reward has refused something.
    """
    # failures of rows stand in the table
    logger = logging.getLogger("lightrl.rewards.scoring")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with builder.refusals():
            yield
    except RuntimeError as error:
        raise ConfigError("model.rewards", str(error)) from error
    finally:
        logger.setLevel(level)


def rewards_of(resolved: Resolved, builder: Builder, rollout: int = 0, environment: Environment | None = None) -> RewardSet:
    """The rewards of a config.

    Args:
        resolved: the config.
        builder: that builds them.
        rollout: weights on a schedule are those after so many rollouts.
        environment: that answers the policy, and whose rewards are among them; None: nobody does.

    Raises:
        ConfigError: it names none, or leaves out a required argument.
    """
    chosen = resolved.model.value("rewards") if "rewards" in resolved.model.takes else None
    if not chosen and (environment is None or not environment.gives_rewards):
        raise ConfigError("model.rewards", "the config names no reward.", "Type for example: --model.rewards.correct ExactMatch")
    refuse_missing_below(chosen or {}, "model.rewards")
    built = {name: builder.build(choice, f"model.rewards.{name}") for name, choice in (chosen or {}).items()}
    rewards = RewardSet(built if environment is None else with_environment(built, environment))
    rewards.rollouts = rollout
    return rewards
