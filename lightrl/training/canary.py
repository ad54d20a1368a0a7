"""The canary: after every update of an engine with weights of its own, its first log-probs are compared with the trainer's."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from lightrl.policy.policy import Policy
from lightrl.rollout.loop import RolloutLoop
from lightrl.rollout.probe import ROWS
from lightrl.training.precision import tolerance
from lightrl.types import Rollout


@torch.no_grad()
def canary_deviation(rollout: Rollout, policy: Policy, device: torch.device) -> float:
    """Largest deviation from 1 of the ratio of a token's probability: the trainer's over the engine's.

    max |exp(trainer - engine) - 1| over the sampled tokens of the first `ROWS` rows that have any.

    Args:
        rollout: as the engine gave it.
        policy: the trainer's. Its forward runs `ROWS` times on every rank, since a strategy that shards weights gathers them in each.
        device: of the forwards.
    """
    largest = torch.zeros(1)
    for ids, mask, engine in _rows(rollout):
        trainer = policy(ids.to(device), mask.to(device), rollout.temperature).logprobs.cpu()[mask.cpu()]
        largest = torch.cat([largest, ((trainer - engine.cpu()[mask.cpu()]).exp() - 1).abs().to(largest)])
    # of NaN and numbers the largest is NaN
    return float(largest.max())


def watch(rollouts: RolloutLoop, policy: Policy) -> None:
    """Have an engine with weights of its own compared with a policy after each update, where no trainer does it.

    Args:
        rollouts: whose engine gets the weights of the policy.
        policy: in this process alone.
    """

    def check(rollout: Rollout) -> None:
        engine, device = rollouts.engine, next(policy.parameters()).device
        limit = tolerance(policy.model.dtype) if engine.logprob_tolerance is None else engine.logprob_tolerance
        if engine.comparable_logprobs and not (deviation := canary_deviation(rollout, policy, device)) <= limit:
            raise mismatch(type(engine).__name__, 0, deviation, limit)

    rollouts.check_engine = check


def mismatch(engine: str, step: int, deviation: float, limit: float) -> RuntimeError:
    """The error of an engine whose log-probs are not the trainer's."""
    return RuntimeError(
        f"{engine} does not sample from the trainer's weights: after their update at step {step} the importance ratio of every token of "
        f"its first {ROWS} rows should be 1, and one deviates by {deviation:.3g} (tolerance {limit:g}). Either the weights of this step "
        "have not reached it (its update_weights), or it computes otherwise than the trainer: compare precision, temperature and the "
        "model's config. An engine whose log-probs are known to be less exact says so by its logprob_tolerance"
    )


def _rows(rollout: Rollout) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """`ROWS` rows of ids, mask and log-probs, `[1, L]` each; two tokens without a response where there are fewer."""
    sampled = (rollout.response_lengths > 0).nonzero()[:ROWS, 0].tolist()
    for row in sampled:
        end = int(rollout.lengths[row])
        yield (
            rollout.input_ids[row : row + 1, :end],
            rollout.response_mask[row : row + 1, :end],
            rollout.rollout_logprobs[row : row + 1, :end],
        )
    for _ in range(ROWS - len(sampled)):
        yield torch.zeros(1, 2, dtype=torch.long), torch.zeros(1, 2, dtype=torch.bool), torch.zeros(1, 2)
