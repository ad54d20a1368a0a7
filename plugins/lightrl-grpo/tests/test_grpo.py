"""The defaults are the paper's, and one option is one difference."""

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lightrl_grpo import GRPO, DrGRPO, StepNormalized
from lightrl_workshop.experience import PROMPT, experience

from lightrl import (
    ConstantLength,
    DecoupledClip,
    FrozenReference,
    GroupCentered,
    GroupNormalized,
    GroupSampler,
    KLPenalty,
    LeaveOneOut,
    SequenceMean,
    SymmetricClip,
    TokenRatio,
)
from lightrl.registry.classes import registry


def test_the_defaults_are_the_papers() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        grpo = GRPO()
    assert isinstance(grpo.kl, KLPenalty)
    assert (grpo.kl.estimator, grpo.kl.loss_coefficient, grpo.kl.reward_coefficient) == ("k3", 0.04, 0.0)
    assert grpo.kl.against == "reference"
    assert isinstance(grpo.advantage, GroupNormalized)
    assert (grpo.advantage.std, grpo.advantage.ddof) == ("group", 1)
    assert isinstance(grpo.clip, SymmetricClip)
    assert grpo.clip.epsilon == 0.2
    assert type(grpo.aggregation) is SequenceMean
    assert type(grpo.ratio) is TokenRatio
    assert type(grpo.reference) is FrozenReference
    assert type(grpo.sampler) is GroupSampler
    assert grpo.steps_per_rollout == 1
    assert grpo.critic is grpo.entropy is grpo.token_weight is grpo.correction is None


def test_the_reference_is_needed_for_the_penalty_only() -> None:
    assert GRPO().needs == {"ref_logprobs"}
    assert GRPO(kl=None).needs == frozenset()
    assert GRPO(kl=KLPenalty(loss_coefficient=0)).needs == frozenset()


def test_one_part_can_be_exchanged() -> None:
    grpo = GRPO(clip=DecoupledClip(high=0.3), epochs=2)
    assert grpo.clip.high == 0.3
    assert grpo.steps_per_rollout == 2
    assert grpo.kl.loss_coefficient == 0.04


def test_two_algorithms_share_nothing() -> None:
    first, second = GRPO(), GRPO()
    first.kl.loss_coefficient = 1.0
    assert second.kl.loss_coefficient == 0.04
    assert all(part is not second.parts[slot] for slot, part in first.parts.items())


def test_dr_grpo_has_neither_division() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dr = DrGRPO()
    assert type(dr.advantage) is GroupCentered
    assert type(dr.aggregation) is ConstantLength
    assert dr.aggregation.length == 3000
    assert dr.kl is None
    assert dr.clip.epsilon == 0.2
    assert dr.needs == frozenset()


def test_dr_grpos_advantages_are_those_of_leave_one_out_but_for_a_factor() -> None:
    rows = experience([2.0, 10.0, 3.0])
    ours = DrGRPO().advantage.compute(rows).advantages
    assert ours[:, PROMPT].tolist() == [-3, 5, -2]
    assert (LeaveOneOut().compute(rows).advantages * 2 / 3)[:, PROMPT].tolist() == pytest.approx([-3, 5, -2])


@given(st.lists(st.integers(0, 10), min_size=3, max_size=8), st.lists(st.integers(0, 10), min_size=2, max_size=8))
def test_rewards_of_0_to_100_teach_what_those_of_0_to_10_teach(first: list[int], second: list[int]) -> None:
    """One group judged on another scale: its advantages, and everybody else's, stay."""
    group = [0] * len(first) + [1] * len(second)
    advantage = GRPO(kl=None).advantage
    small = advantage.compute(experience([*map(float, first), *map(float, second)], group=group)).advantages
    large = advantage.compute(experience([*(10.0 * r for r in first), *map(float, second)], group=group)).advantages
    assert small[:, PROMPT].tolist() == pytest.approx(large[:, PROMPT].tolist(), abs=1e-4)


@pytest.mark.parametrize(("kind", "cls"), [("algorithm", GRPO), ("algorithm", DrGRPO), ("advantage", StepNormalized)])
def test_the_hooks_register_it(kind: str, cls: type) -> None:
    assert registry().resolve(kind, cls.__name__) is cls
    assert registry().resolve(kind, f"lightrl-grpo:{cls.__name__}") is cls
