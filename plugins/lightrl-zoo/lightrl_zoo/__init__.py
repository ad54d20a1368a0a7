"""Algorithms that differ from GRPO or PPO by one or two parts: CISPO, SAPO, GMPO, GPG, MaxRL, DPPO, Clip-Cov and others."""

from lightrl import ActorCritic, DecoupledClip, GroupRelative, PolicyGradient, PositiveNLL, TokenMean, ValueModel, hookimpl
from lightrl_zoo.advantages import GDPO, BatchNormalized, BestOverSecond, LengthAdaptiveGAE, MaxRL, MeanScaled, PassAtK, PassAtKTraining
from lightrl_zoo.covariance import ClipCov, CovarianceClip, CovarianceKL, KLCov
from lightrl_zoo.disco import DRPO, DisCO, DiscriminativeLoss, KLBudget
from lightrl_zoo.gpg import GroupCenteredScaled, ValidFractionSampler
from lightrl_zoo.high_entropy import ForkingTokens, TopEntropy
from lightrl_zoo.masks import DPPO, DivergenceMask, KLMask, MaskedREINFORCE, OffPolicyMask, TotalVariationMask
from lightrl_zoo.optimal_baseline import LogitGradient, OptimalTokenBaseline
from lightrl_zoo.rejection import DivergenceRejection, GeometricRejection, Rejection
from lightrl_zoo.surrogates import CappedImportance, GammaWeight, GeometricMeanClip, SoftGate
from lightrl_zoo.unit_mean import UnitMean

__all__ = [
    "CISPO",
    "DPPO",
    "DRPO",
    "GDPO",
    "GMPO",
    "GPG",
    "SAPO",
    "VAPO",
    "VESPO",
    "BatchNormalized",
    "BestOverSecond",
    "CappedImportance",
    "ClipCov",
    "CovarianceClip",
    "CovarianceKL",
    "DisCO",
    "DiscriminativeLoss",
    "DivergenceMask",
    "DivergenceRejection",
    "ForkingTokens",
    "GammaWeight",
    "GeometricMeanClip",
    "GeometricRejection",
    "GroupCenteredScaled",
    "KLBudget",
    "KLCov",
    "KLMask",
    "LengthAdaptiveGAE",
    "LitePPO",
    "LogitGradient",
    "MaskedREINFORCE",
    "MaxRL",
    "MeanScaled",
    "OffPolicyMask",
    "OptimalTokenBaseline",
    "PassAtK",
    "PassAtKTraining",
    "Rejection",
    "SoftGate",
    "TopEntropy",
    "TotalVariationMask",
    "UnitMean",
    "ValidFractionSampler",
]


class CISPO(GroupRelative):
    """Clipped importance-sampling policy optimisation.

    GRPO's advantages, a policy gradient whose importance weight is capped so that every token keeps a gradient, every token
    weighing the same, and no KL. The paper adds DAPO's dynamic sampling and length penalty: `sampler: DynamicSampler` and a
    second reward.

    Source: MiniMax 2025 (MiniMax-M1), arXiv:2506.13585, section 3.1.
    """

    best_for = "long chains of thought, where rare decisive tokens must not lose their gradient to a clip"

    clip = CappedImportance()
    aggregation = TokenMean()


class SAPO(GroupRelative):
    """Soft adaptive policy optimisation.

    GRPO with a smooth gate in place of the clip, and no KL.

    Source: Gao et al. 2025, arXiv:2511.20347.
    """

    best_for = "several steps per rollout where a hard clip throws too much away, as with mixture-of-experts policies"

    clip = SoftGate()


class VESPO(GroupRelative):
    """Variational sequence-level soft policy optimisation.

    GRPO's advantages and a policy gradient under a smooth weight of the whole completion's importance ratio in place of the clip,
    every token weighing the same, and no KL.

    Source: Shen et al. 2026, arXiv:2602.10693.
    """

    best_for = "rollouts that are older than the weights that learn from them: several steps, rollouts ahead, another engine"

    clip = GammaWeight()
    aggregation = TokenMean()


class GMPO(GroupRelative):
    """Geometric-mean policy optimisation.

    GRPO with the geometric mean of a row's clipped token ratios in place of the mean of their clipped products, and no KL.

    Source: Zhao et al. 2025, arXiv:2507.20673.
    """

    best_for = "several steps per rollout on noisy ratios: no single token can dominate its completion"

    clip = GeometricMeanClip()


class GPG(GroupRelative):
    """Group policy gradient.

    The plain policy gradient with centred rewards, scaled up by the share of groups that have a signal; groups without one are
    drawn again until six in ten have it; no ratio, no clip, no reference. For one optimizer step per rollout: with more it is
    off-policy and says so.

    Source: Chu et al. 2025, arXiv:2504.02546.
    """

    best_for = "a first baseline with groups: one step per rollout, nothing but centred rewards to tune"

    sampler = ValidFractionSampler()
    advantage = GroupCenteredScaled()
    clip = PolicyGradient()
    aggregation = TokenMean()


class LitePPO(GroupRelative):
    """Lite PPO: PPO's clip without a critic.

    Rewards minus their group's mean, divided by the deviation over the whole batch, and every token weighing the same; no KL.

    Source: Liu et al. 2025, arXiv:2508.08221.
    """

    best_for = "base models and binary rewards, where the spread within a single group is mostly noise"

    advantage = GroupRelative.advantage.but(std="batch")
    aggregation = TokenMean()


class VAPO(ActorCritic):
    """Value-based augmented PPO.

    PPO with several completions per prompt, a critic of its own that is trained alone for the first rollouts (value pretraining),
    advantages whose lambda grows with the length while the critic learns from whole returns (decoupled, length-adaptive GAE),
    clip-higher, every token weighing the same, and imitation of right answers.

    Source: Yue et al. 2025, arXiv:2504.05118, section 4.
    """

    best_for = "long chains of thought with one reward at the end, where there is memory and time to train a critic"

    sampler = ActorCritic.sampler.but(group_size=16)
    advantage = LengthAdaptiveGAE()
    critic = ValueModel(warmup_rollouts=50)
    clip = DecoupledClip(low=0.2, high=0.28)
    positive_nll = PositiveNLL(coefficient=0.1)
    """Imitates completions with a reward above 0; null: none."""


@hookimpl
def lightrl_algorithms() -> list[type]:
    return [
        CISPO,
        DPPO,
        DRPO,
        GDPO,
        GMPO,
        GPG,
        SAPO,
        VAPO,
        VESPO,
        ClipCov,
        DisCO,
        ForkingTokens,
        KLCov,
        LitePPO,
        MaskedREINFORCE,
        MaxRL,
        PassAtKTraining,
    ]


@hookimpl
def lightrl_samplers() -> list[type]:
    return [ValidFractionSampler]


@hookimpl
def lightrl_advantages() -> list[type]:
    return [BatchNormalized, BestOverSecond, GroupCenteredScaled, LengthAdaptiveGAE, MeanScaled, OptimalTokenBaseline, PassAtK]


@hookimpl
def lightrl_clip_schemes() -> list[type]:
    return [
        CappedImportance,
        CovarianceClip,
        GammaWeight,
        GeometricMeanClip,
        KLMask,
        OffPolicyMask,
        SoftGate,
        TopEntropy,
        TotalVariationMask,
    ]


@hookimpl
def lightrl_loss_terms() -> list[type]:
    return [CovarianceKL, DiscriminativeLoss, KLBudget]


@hookimpl
def lightrl_corrections() -> list[type]:
    return [DivergenceRejection, GeometricRejection, UnitMean]


@hookimpl
def lightrl_outputs() -> list[type]:
    return [LogitGradient]
