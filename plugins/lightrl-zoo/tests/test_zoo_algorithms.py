"""The parts of each algorithm, and the settings that it refuses."""

import warnings

import pytest
from lightrl_zoo import (
    CISPO,
    GMPO,
    GPG,
    SAPO,
    VAPO,
    VESPO,
    CappedImportance,
    GammaWeight,
    GeometricMeanClip,
    GroupCenteredScaled,
    LengthAdaptiveGAE,
    LitePPO,
    SoftGate,
    ValidFractionSampler,
)

from lightrl import (
    GroupNormalized,
    GroupSampler,
    PolicyGradient,
    SequenceMean,
    SequenceRatio,
    SymmetricClip,
    TokenMean,
    TokenRatio,
)

ALGORITHMS = [
    (CISPO, GroupNormalized, CappedImportance, TokenMean),
    (SAPO, GroupNormalized, SoftGate, SequenceMean),
    (GMPO, GroupNormalized, GeometricMeanClip, SequenceMean),
    (VESPO, GroupNormalized, GammaWeight, TokenMean),
    (GPG, GroupCenteredScaled, PolicyGradient, TokenMean),
    (LitePPO, GroupNormalized, SymmetricClip, TokenMean),
]


@pytest.mark.parametrize(("cls", "advantage", "clip", "aggregation"), ALGORITHMS)
def test_parts(cls, advantage, clip, aggregation) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        algorithm = cls()
    assert (type(algorithm.advantage), type(algorithm.clip), type(algorithm.aggregation)) == (advantage, clip, aggregation)
    assert type(algorithm.sampler) is (ValidFractionSampler if cls is GPG else GroupSampler)
    assert type(algorithm.ratio) is TokenRatio
    assert algorithm.kl is algorithm.critic is algorithm.token_weight is None
    assert algorithm.needs == frozenset()


def test_published_numbers() -> None:
    assert (CISPO().clip.high, CISPO().clip.low) == (0.2, None)
    assert (SAPO().clip.positive, SAPO().clip.negative) == (1.0, 1.05)
    assert (GMPO().clip.low, GMPO().clip.high) == (0.4, 0.4)
    gamma = VESPO().clip
    assert (gamma.k_positive, gamma.lam_positive, gamma.k_negative, gamma.lam_negative) == (2, 3, 3, 2)
    assert LitePPO().advantage.std == "batch"
    assert GPG().sampler.least == 0.6


def test_vapo() -> None:
    vapo = VAPO()
    assert type(vapo.advantage) is LengthAdaptiveGAE
    assert (vapo.advantage.alpha, vapo.advantage.gamma) == (0.05, 1.0)
    assert (vapo.clip.low, vapo.clip.high) == (0.2, 0.28)
    assert type(vapo.aggregation) is TokenMean
    assert (vapo.positive_nll.coefficient, type(vapo.positive_nll.aggregation)) == (0.1, TokenMean)
    assert (vapo.critic.warmup_rollouts, vapo.critic.own_trunk) == (50, True)
    assert vapo.sampler.group_size == 16
    assert vapo.kl is None
    assert vapo.needs == {"values"}


@pytest.mark.parametrize("cls", [CISPO, GMPO, GPG, VESPO])
def test_what_needs_token_ratios_says_so(cls) -> None:
    with pytest.raises(ValueError, match=r"TokenRatio.*SequenceRatio"):
        cls(ratio=SequenceRatio(), aggregation=SequenceMean())


def test_a_row_constant_is_not_counted_once_per_token() -> None:
    with pytest.raises(ValueError, match=r"GeometricMeanClip .*TokenMean"):
        GMPO(aggregation=TokenMean())


def test_gpg_is_on_policy() -> None:
    with pytest.warns(UserWarning, match=r"PolicyGradient .* 2 "):
        GPG(minibatches=2)
