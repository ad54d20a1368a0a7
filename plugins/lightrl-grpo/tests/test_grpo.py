"""The defaults are the paper's, and one option is one difference."""

import warnings

import pytest
from lightrl_grpo import GRPO, StepNormalized

from lightrl import DecoupledClip, FrozenReference, GroupNormalized, GroupSampler, KLPenalty, SequenceMean, SymmetricClip, TokenRatio
from lightrl.plugins.registry import registry


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


def test_two_bundles_share_nothing() -> None:
    first, second = GRPO(), GRPO()
    first.kl.loss_coefficient = 1.0
    assert second.kl.loss_coefficient == 0.04
    assert all(part is not second.parts[slot] for slot, part in first.parts.items())


@pytest.mark.parametrize(("kind", "cls"), [("algorithm", GRPO), ("advantage", StepNormalized)])
def test_the_hooks_register_it(kind: str, cls: type) -> None:
    assert registry().resolve(kind, cls.__name__) is cls
    assert registry().resolve(kind, f"lightrl-grpo:{cls.__name__}") is cls
