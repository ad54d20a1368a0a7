"""Whether rollouts have sizes and rewards from which something can be learnt."""

from __future__ import annotations

from collections.abc import Mapping

from lightning.pytorch.utilities import rank_zero_warn

from lightrl.algorithms.algorithm import Algorithm
from lightrl.algorithms.extras import refuse_missing_extras
from lightrl.parts.base import TrunkOutput
from lightrl.parts.engine import RolloutEngine
from lightrl.parts.environment import Environment
from lightrl.parts.reward import Reward


def refuse_no_rewards(algorithm: Algorithm, rewards: Mapping[str, Reward] | None, environment: Environment) -> bool:
    """Whether the policy learns from rewards; a ValueError if it does, and there are none."""
    wants = algorithm.advantage.needs_rewards
    if wants and not rewards and not environment.gives_rewards:
        raise ValueError("model.rewards is empty: name at least one reward, for example rewards: {correct: ExactMatch}")
    return wants


def settle_rollouts(prompts: int, algorithm: Algorithm, engine: RolloutEngine, environment: Environment) -> None:
    """Refuse rollouts from which nothing could be learnt, and tell the engine what parts read of its passes."""
    refuse_missing_extras(algorithm, environment)
    if prompts < algorithm.minibatches:
        raise ValueError(
            f"model.prompts_per_rollout is {prompts}, but algorithm.minibatches is {algorithm.minibatches}, and minibatches are whole "
            "groups: raise the one or lower the other"
        )
    if engine.sampling.temperature == 0:
        raise ValueError("model.engine.temperature is 0, and a policy that never varies cannot learn from its rollouts; use 1.0")
    tell_engine(algorithm, engine)


def tell_engine(algorithm: Algorithm, engine: RolloutEngine) -> None:
    """Say what an engine is to record while it samples, before its first request; nothing if it records nothing or has not sampled all."""
    wanted = tuple(output for output in algorithm.rollout_outputs.values() if isinstance(output, TrunkOutput))
    records = engine.records and algorithm.sampler.samples_all
    engine.recorded = wanted if records else ()
    if wanted and not records:
        who = f"{type(algorithm.sampler).__name__} brings rows" if engine.records else f"{type(engine).__name__} samples rows"
        names = ", ".join(output.name for output in wanted)
        rank_zero_warn(f"{who} for which no engine records {names}: numbers that compare them are not there")
