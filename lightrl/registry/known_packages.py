"""The packages of this project and what each of them registers, so that the name of one that is not installed is answered with it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, distribution

from lightrl.registry.loader import LIMIT

CLASSES: Mapping[str, tuple[str, ...]] = {
    "lightrl-code": ("UnitTests",),
    "lightrl-dapo": ("DAPO",),
    "lightrl-dcpo": ("DCPO", "DynamicAdaptiveClip", "SmoothedAdvantage"),
    "lightrl-grpo": ("DrGRPO", "GRPO", "StepNormalized"),
    "lightrl-gspo": ("GSPO", "GSPOToken", "SequenceTokenRatio"),
    "lightrl-gym": ("Blackjack", "EarlyWin", "FrozenLake", "Taxi", "TextArena"),
    "lightrl-judge": ("JudgePair", "JudgePreference", "JudgeScore"),
    "lightrl-math": ("Boxed", "FinalNumber", "MathAnswer", "MultipleChoice"),
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
    "lightrl-preference": ("DPO", "Hinge", "IPO", "KTO", "ORPO", "ReferenceFreeDPO", "ReferenceFreeHinge", "RobustDPO", "SimPO"),
    "lightrl-ray": ("RayEngine",),
    "lightrl-reasoning-gym": ("ReasoningGym", "ReasoningGymScore"),
    "lightrl-reward-model": ("RewardModel",),
    "lightrl-rft": ("AtLeast", "BestAgainstWorst", "BestAndWorst", "BestOfGroup", "ExpertIteration", "Imitation", "OnlineDPO"),
    "lightrl-text": ("JsonSchema", "Language", "Length", "RegularExpression", "Repetition", "SoftOverlong", "TagFormat"),
    "lightrl-vllm": ("VLLMEngine",),
    "lightrl-zoo": (
        "CISPO",
        "CappedImportance",
        "GMPO",
        "GPG",
        "GeometricMeanClip",
        "GroupCenteredScaled",
        "LengthAdaptiveGAE",
        "LitePPO",
        "SAPO",
        "SoftGate",
        "VAPO",
        "ValidFractionSampler",
    ),
}
"""By package: the classes that it registers."""
CONFIGS: Mapping[str, tuple[str, ...]] = {
    "lightrl-dapo": ("dapo", "dapo_sort"),
    "lightrl-dcpo": ("dcpo", "dcpo_sort"),
    "lightrl-grpo": (
        "dr_grpo",
        "dr_grpo_sort",
        "grpo",
        "grpo_blackjack",
        "grpo_calculator",
        "grpo_gsm8k",
        "grpo_guess",
        "grpo_lora_sort",
        "grpo_sort",
    ),
    "lightrl-gspo": ("gspo", "gspo_sort"),
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
    "lightrl-preference": ("dpo_sort", "ipo_sort", "kto_sort", "orpo_sort", "simpo_sort"),
    "lightrl-rft": ("expert_iteration_sort", "online_dpo_sort"),
    "lightrl-zoo": (
        "cispo",
        "cispo_sort",
        "gmpo",
        "gmpo_sort",
        "gpg",
        "gpg_sort",
        "lite_ppo",
        "lite_ppo_sort",
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
    return f" It is in the package {package}. Type: pip install {package} (in a checkout: pip install ./plugins/{package})."


def is_installed(package: str) -> bool:
    """Whether a distribution of this name is installed."""
    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True
