"""The packages of this project and what each of them registers, so that the name of one that is not installed is answered with it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, distribution

from lightrl.registry.loader import LIMIT

CLASSES: Mapping[str, tuple[str, ...]] = {
    "lightrl-code": ("UnitTests",),
    "lightrl-curriculum": (
        "EdgeSampler",
        "ReplaySampler",
    ),
    "lightrl-dapo": ("DAPO",),
    "lightrl-dcpo": (
        "DCPO",
        "DynamicAdaptiveClip",
        "SmoothedAdvantage",
    ),
    "lightrl-distill": (
        "ForwardKL",
        "GKD",
        "JensenShannon",
        "MixedSampler",
        "NoAdvantage",
        "OnPolicyDistillation",
        "ReverseKL",
        "TeacherAdvantage",
        "TeacherLoss",
    ),
    "lightrl-grpo": (
        "DrGRPO",
        "GRPO",
        "StepNormalized",
    ),
    "lightrl-gspo": (
        "GSPO",
        "GSPOToken",
        "LUSPO",
        "LengthWeightedMean",
        "SequenceTokenRatio",
    ),
    "lightrl-gym": (
        "Blackjack",
        "EarlyWin",
        "FrozenLake",
        "Taxi",
        "TextArena",
    ),
    "lightrl-judge": (
        "JudgePair",
        "JudgePreference",
        "JudgeScore",
    ),
    "lightrl-math": (
        "Boxed",
        "FinalNumber",
        "MathAnswer",
        "MultipleChoice",
    ),
    "lightrl-moe": (
        "PretrainedMixture",
        "ReplayedSequenceRatio",
        "ReplayedTokenRatio",
        "RoutedSequenceRatio",
        "RoutedTokenRatio",
        "RouterBalance",
        "TinyMixture",
    ),
    "lightrl-ppo": (
        "BatchCentered",
        "DualClip",
        "GreedyBaselineSampler",
        "GreedyCentered",
        "MovingAverageCentered",
        "PPO",
        "PPOPenalty",
        "REINFORCE",
        "RLOO",
        "ReMax",
        "ReinforcePlusPlus",
        "ReinforcePlusPlusBaseline",
        "TargetKL",
        "WhitenedReturn",
    ),
    "lightrl-preference": (
        "AOT",
        "AOTUnpaired",
        "APODown",
        "APOZero",
        "BCO",
        "DPO",
        "DiscoPOP",
        "EXO",
        "ForwardKLDPO",
        "Hinge",
        "IPO",
        "JensenShannonDPO",
        "KTO",
        "LengthNormalizedDPO",
        "NCA",
        "ORPO",
        "ReferenceFreeDPO",
        "ReferenceFreeHinge",
        "RobustDPO",
        "SPPO",
        "SimPO",
    ),
    "lightrl-ray": ("RayEngine",),
    "lightrl-reasoning-gym": (
        "ReasoningGym",
        "ReasoningGymScore",
    ),
    "lightrl-reward-model": ("RewardModel",),
    "lightrl-rft": (
        "AtLeast",
        "BestAgainstWorst",
        "BestAndWorst",
        "BestOfGroup",
        "ExpertIteration",
        "Imitation",
        "OnlineDPO",
    ),
    "lightrl-text": (
        "JsonSchema",
        "Language",
        "Length",
        "RegularExpression",
        "Repetition",
        "SoftOverlong",
        "TagFormat",
    ),
    "lightrl-vllm": ("VLLMEngine",),
    "lightrl-zoo": (
        "BatchNormalized",
        "CISPO",
        "CappedImportance",
        "ClipCov",
        "CovarianceClip",
        "CovarianceKL",
        "DPPO",
        "ForkingTokens",
        "GDPO",
        "GMPO",
        "GPG",
        "GeometricMeanClip",
        "GeometricRejection",
        "GroupCenteredScaled",
        "KLCov",
        "KLMask",
        "LengthAdaptiveGAE",
        "LitePPO",
        "MaskedREINFORCE",
        "MaxRL",
        "MeanScaled",
        "OffPolicyMask",
        "PassAtK",
        "PassAtKTraining",
        "SAPO",
        "SoftGate",
        "TopEntropy",
        "TotalVariationMask",
        "VAPO",
        "ValidFractionSampler",
    ),
}
"""By package: the classes that it registers."""
CONFIGS: Mapping[str, tuple[str, ...]] = {
    "lightrl-dapo": (
        "dapo",
        "dapo_sort",
    ),
    "lightrl-dcpo": (
        "dcpo",
        "dcpo_sort",
    ),
    "lightrl-distill": (
        "distill_sort",
        "gkd_sort",
    ),
    "lightrl-grpo": (
        "dr_grpo",
        "dr_grpo_sort",
        "edge_curriculum",
        "grpo",
        "grpo_blackjack",
        "grpo_calculator",
        "grpo_frozen_lake",
        "grpo_gsm8k",
        "grpo_guess",
        "grpo_lora_sort",
        "grpo_sort",
        "moe_grpo",
        "moe_replay",
        "replay_curriculum",
    ),
    "lightrl-gspo": (
        "gspo",
        "gspo_sort",
        "luspo_sort",
        "moe_gspo",
    ),
    "lightrl-moe": ("moe_start",),
    "lightrl-ppo": (
        "ppo",
        "ppo_penalty_sort",
        "ppo_reward_model_sort",
        "ppo_sort",
        "reinforce_plus_plus",
        "reinforce_plus_plus_baseline",
        "reinforce_plus_plus_baseline_sort",
        "reinforce_plus_plus_sort",
        "reinforce_sort",
        "remax_sort",
        "rloo",
        "rloo_sort",
    ),
    "lightrl-preference": (
        "aot_sort",
        "aot_unpaired_sort",
        "apo_down_sort",
        "apo_zero_sort",
        "bco_sort",
        "discopop_sort",
        "dpo_sort",
        "exo_sort",
        "forward_kl_dpo_sort",
        "ipo_sort",
        "jensen_shannon_dpo_sort",
        "kto_sort",
        "length_normalized_dpo_sort",
        "nca_sort",
        "orpo_sort",
        "simpo_sort",
        "sppo_sort",
    ),
    "lightrl-rft": (
        "expert_iteration_sort",
        "online_dpo_sort",
    ),
    "lightrl-zoo": (
        "cispo",
        "cispo_sort",
        "clip_cov_sort",
        "dppo_sort",
        "forking_tokens_sort",
        "gdpo_sort",
        "gmpo",
        "gmpo_sort",
        "gpg",
        "gpg_sort",
        "kl_cov_sort",
        "lite_ppo",
        "lite_ppo_sort",
        "masked_reinforce_sort",
        "max_rl_sort",
        "pass_at_k_sort",
        "sapo",
        "sapo_sort",
        "vapo",
        "vapo_sort",
    ),
}
"""By package: the configs that it brings."""


def where_to_find(name: str, packages: Mapping[str, Iterable[str]], loaded: Iterable[str]) -> str:
    """A sentence about the package that brings a name, if it is one of ours and is not loaded; empty else.

    Args:
        name: of a class or of a config, or the import path of a class.
        packages: `CLASSES` or `CONFIGS`.
        loaded: packages that were loaded, or have failed to.
    """
    module = name.partition(".")[0].replace("_", "-")
    package = next((package for package, names in packages.items() if name in names or module == package), None)
    if package is None or package in loaded:
        return ""
    if LIMIT in os.environ and is_installed(package):
        return f" It is in {package}, which {LIMIT} leaves out."
    return (
        f" It is in the package {package}. Type: pip install --find-links dist {package} (in a checkout: pip install ./plugins/{package})."
    )


def is_installed(package: str) -> bool:
    """Whether a distribution of this name is installed."""
    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True
