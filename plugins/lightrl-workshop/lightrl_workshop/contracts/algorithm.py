"""The contract of every algorithm."""

from __future__ import annotations

import torch

from lightrl.algorithms.algorithm import Algorithm
from lightrl_workshop.checks.check import Make, contract_check, expect
from lightrl_workshop.toy import Learnt, one_rollout

KIND = "algorithm"


@contract_check(KIND, "two instances share no part")
def unshared(make: Make[Algorithm]) -> None:
    """Nor does a default belong to the class."""
    one, other = make(), make()
    expect(isinstance(one, Algorithm), f"it must be an Algorithm, got {type(one).__name__}")
    for slot, part in one.parts.items():
        expect(other.parts.get(slot) is not part, f"two instances share their {slot}: pass defaults through Algorithm.__init__", part=part)


@contract_check(KIND, "it takes a step")
def steps(make: Make[Algorithm]) -> None:
    """One rollout of a tiny policy moves its weights, and all stay finite."""
    learnt = _learnt(make)
    expect(learnt.steps > 0, "one rollout made no optimizer step")
    expect(all(bool(value.isfinite().all()) for value in learnt.weights.values()), "weights are not finite after one rollout")
    expect(learnt.moved > 0, "one rollout left every weight where it was")


@contract_check(KIND, "it learns in the right direction")
def learns(make: Make[Algorithm]) -> None:
    """After one rollout, completions that scored better than others of their prompt have gained probability on them.

    Where no reward is read, those that the teachers find likelier than the policy did.
    """
    learnt = _learnt(make)
    what = "better completions have not gained on worse ones"
    rewards = learnt.rewards
    expect(learnt.covariance > 0, what, covariance=learnt.covariance, rewards=rewards, gain_per_token=learnt.gain, group=learnt.group)


def _learnt(make: Make[Algorithm]) -> Learnt:
    torch.manual_seed(0)
    algorithm = make()
    # a critic that is trained by itself at first would leave the policy where it is for a while
    if algorithm.critic is not None:
        algorithm.critic.warmup_rollouts = 0
    return one_rollout(algorithm)
