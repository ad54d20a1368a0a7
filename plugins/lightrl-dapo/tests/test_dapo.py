"""The defaults are the paper's, and one option is one difference."""

import warnings

import pytest
import torch
from lightrl_dapo import DAPO, DynamicSampler
from lightrl_workshop.experience import experience

from lightrl import (
    DecoupledClip,
    ExactMatch,
    GroupNormalized,
    GroupSampler,
    MaskTruncated,
    PolicyOptimization,
    PretrainedPolicy,
    TokenMean,
    TokenRatio,
)
from lightrl.registry.classes import registry


def test_the_defaults_are_the_papers() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dapo = DAPO()
    assert isinstance(dapo.sampler, DynamicSampler)
    assert (dapo.sampler.group_size, dapo.sampler.max_rounds) == (16, 10)
    assert (dapo.sampler.zero_variance, dapo.sampler.exhausted, dapo.sampler.surplus) == ("replace", "raise", "drop")
    assert isinstance(dapo.clip, DecoupledClip)
    assert (dapo.clip.low, dapo.clip.high) == (0.2, 0.28)
    assert isinstance(dapo.token_weight, MaskTruncated)
    assert not dapo.token_weight.drop_from_statistics
    assert type(dapo.aggregation) is TokenMean
    assert type(dapo.advantage) is GroupNormalized
    assert type(dapo.ratio) is TokenRatio
    assert dapo.kl is dapo.critic is dapo.entropy is dapo.correction is None
    assert dapo.needs == frozenset()


def test_two_rewards_without_a_metric_are_refused_before_anything_is_loaded() -> None:
    rewards = {"right": ExactMatch(), "form": ExactMatch(weight=0.1)}
    policy = PretrainedPolicy("there is no such folder")
    with pytest.raises(ValueError, match=r"there are right, form: type --model.algorithm.sampler.metric right"):
        PolicyOptimization(policy, DAPO(), rewards)
    PolicyOptimization(policy, DAPO(sampler=DynamicSampler(metric="form")), rewards)


def test_one_part_can_be_exchanged() -> None:
    dapo = DAPO(sampler=GroupSampler(8), token_weight=None, minibatches=16)
    assert dapo.sampler.group_size == 8
    assert dapo.token_weight is None
    assert dapo.clip.high == 0.28


def test_two_algorithms_share_nothing() -> None:
    first, second = DAPO(), DAPO()
    assert all(part is not second.parts[slot] for slot, part in first.parts.items())


def test_a_filtered_row_leaves_numerator_and_denominator() -> None:
    """Two rows, the second cut at the limit: the mean over tokens is the first row's alone."""
    dapo = DAPO()
    rows = experience([1.0, 0.0], lengths=[1, 3], finish_reason=["stop", "length"])
    weights = dapo.token_weight.weights(rows) * rows.token_weight
    assert weights.sum() == 1
    loss = torch.tensor([[1.0], [3.0]]).expand_as(weights)
    assert (loss * weights).sum() / weights.sum() == 1


@pytest.mark.parametrize("name", ["DAPO", "lightrl-dapo:DAPO"])
def test_the_hook_registers_it(name: str) -> None:
    assert registry().resolve("algorithm", name) is DAPO
