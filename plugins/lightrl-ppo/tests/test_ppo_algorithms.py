"""The defaults are the papers', and the hooks register everything."""

import math
import warnings

import lightrl_ppo
import pytest
import torch
from lightrl_ppo import (
    PPO,
    REINFORCE,
    RLOO,
    ClippedRLOO,
    CompletionRatio,
    GreedyBaselineSampler,
    PPOPenalty,
    ReinforcePlusPlus,
    ReinforcePlusPlusBaseline,
    ReMax,
)

from lightrl import Algorithm, NoClip, PolicyGradient, SequenceMean, SequenceSum, SymmetricClip, TokenMean, ValueHead
from lightrl.registry.classes import registry
from lightrl.types import Denominators

EVERY = [PPO, PPOPenalty, REINFORCE, ReMax, RLOO, ClippedRLOO, ReinforcePlusPlus, ReinforcePlusPlusBaseline]


@pytest.mark.parametrize("algorithm", EVERY)
def test_every_algorithm_is_built_without_a_warning_and_shares_nothing(algorithm: type[Algorithm]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first, second = algorithm(), algorithm()
    assert all(part is not second.parts[slot] for slot, part in first.parts.items())


def test_ppo_is_trls() -> None:
    ppo = PPO()
    assert (ppo.advantage.gamma, ppo.advantage.lam, ppo.advantage.whitened, ppo.advantage.whitened_rewards) == (1.0, 0.95, True, False)
    assert (ppo.clip.low, ppo.clip.high) == (0.2, 0.2)
    assert isinstance(ppo.critic, ValueHead)
    assert (ppo.critic.coefficient, ppo.critic.clip, ppo.critic.detach) == (0.1, 0.2, False)
    assert (ppo.kl.estimator, ppo.kl.reward_coefficient, ppo.kl.loss_coefficient) == ("k1", 0.05, 0.0)
    assert type(ppo.aggregation) is TokenMean
    assert (ppo.epochs, ppo.minibatches, ppo.sampler.group_size) == (4, 1, 1)
    assert ppo.needs == {"values", "ref_logprobs"}


def test_the_penalty_form_has_a_controller_in_place_of_the_clip() -> None:
    penalty = PPOPenalty()
    assert type(penalty.clip) is NoClip
    assert (penalty.kl.against, penalty.kl.estimator, penalty.kl.loss_coefficient) == ("old", "k3", 1.0)
    assert penalty.kl.controller.target == 0.01
    assert penalty.needs == {"values"}


def test_rloo_is_the_papers() -> None:
    rloo = RLOO()
    assert type(rloo.clip) is PolicyGradient
    assert type(rloo.aggregation) is SequenceSum
    assert (rloo.kl.estimator, rloo.kl.reward_coefficient) == ("k1", 0.03)
    assert (rloo.sampler.group_size, rloo.steps_per_rollout) == (4, 1)


@pytest.mark.parametrize(
    ("ratio", "advantage", "objective", "slope"),
    [
        (1.0, 1.5, 1.5, 1.5),
        (1.1, 1.5, 1.65, 1.65),
        (1.3, 1.5, 1.8, 0.0),  # 1.2 x 1.5
        (1.3, -1.5, -1.95, -1.95),
        (0.7, -1.5, -1.2, 0.0),  # 0.8 x -1.5
    ],
)
def test_clipped_rloo_by_hand(ratio: float, advantage: float, objective: float, slope: float) -> None:
    """A row of two tokens beside a masked one: the ratio is their product, and the row counts once, whatever its length."""
    clipped, mask = ClippedRLOO(), torch.tensor([[True, False, True]])
    logs = torch.tensor([[math.log(2), 3.0, math.log(ratio / 2)]], dtype=torch.float64, requires_grad=True)
    log_ratio = clipped.ratio.log_ratio(logs, torch.zeros_like(logs), mask)
    loss = clipped.clip.surrogate(log_ratio, torch.full_like(logs, advantage), torch.zeros_like(logs), mask).loss
    weights = clipped.aggregation.weights(mask.double(), torch.zeros(1), Denominators(2, 1, 1, 1))
    (-loss * weights).sum().backward()
    assert -(loss * weights).sum().item() == pytest.approx(objective)
    assert logs.grad is not None
    assert logs.grad[0].tolist() == pytest.approx([slope, 0.0, slope])


def test_clipped_rloo_is_rloo_but_for_ratio_clip_and_aggregation() -> None:
    plain, clipped = RLOO(), ClippedRLOO()
    assert {slot for slot in plain.parts if repr(plain.parts[slot]) != repr(clipped.parts[slot])} == {"ratio", "clip", "aggregation"}
    assert type(clipped.ratio) is CompletionRatio
    assert clipped.clip.epsilon == 0.2


def test_reinforce_plus_plus_is_the_papers() -> None:
    alone, grouped = ReinforcePlusPlus(), ReinforcePlusPlusBaseline()
    assert (alone.kl.estimator, alone.kl.reward_coefficient, alone.sampler.group_size) == ("k1", 0.001, 1)
    assert type(alone.aggregation) is SequenceMean
    assert type(alone.clip) is type(grouped.clip) is SymmetricClip
    assert (alone.advantage.over, alone.advantage.baseline, alone.advantage.gamma) == ("rows", "none", 1.0)
    assert (grouped.advantage.baseline, grouped.sampler.group_size) == ("group", 8)
    assert (grouped.kl.estimator, grouped.kl.loss_coefficient, grouped.kl.reward_coefficient) == ("k2", 0.001, 0.0)
    assert type(grouped.aggregation) is TokenMean


def test_reinforce_makes_one_step_per_rollout_and_says_so() -> None:
    assert REINFORCE().steps_per_rollout == 1
    with pytest.warns(UserWarning, match=r"PolicyGradient .* 2 "):
        REINFORCE(minibatches=2)
    assert type(ReMax().sampler) is GreedyBaselineSampler


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("algorithm", [cls.__name__ for cls in EVERY]),
        ("advantage", ["BatchCentered", "GreedyCentered", "MovingAverageCentered", "WhitenedReturn"]),
        ("clip scheme", ["DualClip"]),
        ("importance ratio", ["CompletionRatio"]),
        ("sampler", ["GreedyBaselineSampler"]),
        ("KL controller", ["TargetKL"]),
    ],
)
def test_the_hooks_register_it(kind: str, names: list[str]) -> None:
    for name in names:
        assert registry().resolve(kind, f"lightrl-ppo:{name}") is getattr(lightrl_ppo, name)
