"""Every online algorithm that needs no teacher, with the arguments that a short run of a small task asks for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lightrl_dapo import DAPO, DynamicSampler
from lightrl_dcpo import DCPO
from lightrl_grpo import GRPO, DrGRPO
from lightrl_gspo import GSPO, LUSPO
from lightrl_ppo import (
    PPO,
    REINFORCE,
    RLOO,
    BatchCentered,
    ClippedRLOO,
    PPOPenalty,
    ReinforcePlusPlus,
    ReinforcePlusPlusBaseline,
    ReMax,
)
from lightrl_preference import DRO, DROV, DROLoss
from lightrl_rft import BestOfGroup, ExpertIteration, OnlineDPO
from lightrl_zoo import (
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
    DiscriminativeLoss,
    ForkingTokens,
    KLCov,
    LitePPO,
    MaskedREINFORCE,
    MaxRL,
    PassAtK,
    PassAtKTraining,
    ValidFractionSampler,
)  # fmt: skip

from lightrl import ConstantLength, GroupSampler, SymmetricClip, ValueModel
from lightrl.algorithms.algorithm import Algorithm

GROUP = 8
"""Completions of a prompt, where an algorithm compares them."""
CRITIC_RATE = 2e-3
CLIP = 0.2


def _grouped(size: int = GROUP) -> GroupSampler:
    return GroupSampler(group_size=size)


def _critic() -> ValueModel:
    return ValueModel(learning_rate=CRITIC_RATE)


def _clip() -> SymmetricClip:
    # where the paper makes one step per rollout
    return SymmetricClip(epsilon=CLIP)


@dataclass(frozen=True)
class Given:
    """What a task asks of every algorithm."""

    longest: int
    """Tokens that the policy writes in an episode at most."""
    metric: str | None
    """The reward that says whether a completion succeeded; None: the only one."""
    steps: dict[str, int]
    """`epochs` and `minibatches`."""


ALGORITHMS: dict[str, Callable[[Given], Algorithm]] = {
    "CISPO": lambda given: CISPO(**given.steps),
    "ClipCov": lambda given: ClipCov(**given.steps),
    "ClippedRLOO": lambda given: ClippedRLOO(kl=None, sampler=_grouped(), **given.steps),
    "DAPO": lambda given: DAPO(
        sampler=DynamicSampler(group_size=GROUP, metric=given.metric, max_rounds=4, exhausted="partial"), **given.steps
    ),
    "DCPO": lambda given: DCPO(sampler=_grouped(), **given.steps),
    "DPPO": lambda given: DPPO(**given.steps),
    "DRO": lambda given: DRO(sampler=_grouped(), dro=DROLoss(tau=0.05, value="group"), **given.steps),
    "DROV": lambda given: DROV(critic=_critic(), dro=DROLoss(tau=0.05), **given.steps),
    "DRPO": lambda given: DRPO(disco=DiscriminativeLoss(tau=10.0, lam=0.1, length=given.longest), **given.steps),
    "DisCO": lambda given: DisCO(**given.steps),
    "DrGRPO": lambda given: DrGRPO(aggregation=ConstantLength(length=given.longest), **given.steps),
    "ExpertIteration": lambda given: ExpertIteration(token_weight=BestOfGroup(), **given.steps),
    "ForkingTokens": lambda given: ForkingTokens(**given.steps),
    "GDPO": lambda given: GDPO(**given.steps),
    "GMPO": lambda given: GMPO(**given.steps),
    "GPG": lambda given: GPG(sampler=ValidFractionSampler(group_size=GROUP, metric=given.metric), **given.steps),
    "GRPO": lambda given: GRPO(kl=None, **given.steps),
    "GSPO": lambda given: GSPO(**given.steps),
    "KLCov": lambda given: KLCov(**given.steps),
    "LUSPO": lambda given: LUSPO(**given.steps),
    "LitePPO": lambda given: LitePPO(**given.steps),
    "MaskedREINFORCE": lambda given: MaskedREINFORCE(**given.steps),
    "MaxRL": lambda given: MaxRL(**given.steps),
    "OnlineDPO": lambda given: OnlineDPO(sampler=_grouped(2), **given.steps),
    "PPO": lambda given: PPO(kl=None, critic=_critic(), **given.steps),
    "PPOPenalty": lambda given: PPOPenalty(critic=_critic(), **given.steps),
    "PassAtKTraining": lambda given: PassAtKTraining(sampler=_grouped(), advantage=PassAtK(k=2), **given.steps),
    "REINFORCE": lambda given: REINFORCE(advantage=BatchCentered(), clip=_clip(), **given.steps),
    "RLOO": lambda given: RLOO(kl=None, sampler=_grouped(), clip=_clip(), **given.steps),
    "ReMax": lambda given: ReMax(clip=_clip(), **given.steps),
    "ReinforcePlusPlus": lambda given: ReinforcePlusPlus(kl=None, **given.steps),
    "ReinforcePlusPlusBaseline": lambda given: ReinforcePlusPlusBaseline(kl=None, sampler=_grouped(), **given.steps),
    "SAPO": lambda given: SAPO(**given.steps),
    "VAPO": lambda given: VAPO(critic=_critic(), **given.steps),
    "VESPO": lambda given: VESPO(**given.steps),
}
"""By the name that a config has."""
