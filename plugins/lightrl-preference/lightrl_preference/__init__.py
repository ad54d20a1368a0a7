"""Objectives of preference optimisation: DPO and what came after it."""

from lightrl import hookimpl
from lightrl_preference.dpo import (
    AOT,
    DPO,
    EXO,
    AOTUnpaired,
    DiscoPOP,
    ForwardKLDPO,
    JensenShannonDPO,
    LengthNormalizedDPO,
    ReferenceFreeDPO,
    RobustDPO,
)
from lightrl_preference.dro import DRO, DROV, DROLoss
from lightrl_preference.each_completion import NCA, ORPO, SPPO, APODown, APOZero
from lightrl_preference.given import GivenReward, GivenSampler
from lightrl_preference.labelled import BCO, KTO, APOZeroUnpaired
from lightrl_preference.labelled_pairs import LabelledPairs
from lightrl_preference.margins import IPO, AlphaPO, Hinge, ReferenceFreeHinge, ReferenceFreeIPO, SimPO
from lightrl_preference.mixed_objective import MixedObjective
from lightrl_preference.unpaired import Unpaired

__all__ = [
    "AOT",
    "BCO",
    "DPO",
    "DRO",
    "DROV",
    "EXO",
    "IPO",
    "KTO",
    "NCA",
    "ORPO",
    "SPPO",
    "AOTUnpaired",
    "APODown",
    "APOZero",
    "APOZeroUnpaired",
    "AlphaPO",
    "DROLoss",
    "DiscoPOP",
    "ForwardKLDPO",
    "GivenReward",
    "GivenSampler",
    "Hinge",
    "JensenShannonDPO",
    "LabelledPairs",
    "LengthNormalizedDPO",
    "MixedObjective",
    "ReferenceFreeDPO",
    "ReferenceFreeHinge",
    "ReferenceFreeIPO",
    "RobustDPO",
    "SimPO",
    "Unpaired",
]


@hookimpl
def lightrl_objectives() -> list[type]:
    dpo = [DPO, RobustDPO, ReferenceFreeDPO, LengthNormalizedDPO, ForwardKLDPO, JensenShannonDPO]
    others = [IPO, KTO, ORPO, SimPO, Hinge, ReferenceFreeHinge, APOZero, APODown, DiscoPOP, EXO, NCA, SPPO, BCO, AOT, AOTUnpaired]
    return [*dpo, *others, ReferenceFreeIPO, AlphaPO, APOZeroUnpaired, LabelledPairs, MixedObjective]


@hookimpl
def lightrl_algorithms() -> list[type]:
    return [DRO, DROV]


@hookimpl
def lightrl_loss_terms() -> list[type]:
    return [DROLoss]


@hookimpl
def lightrl_samplers() -> list[type]:
    return [GivenSampler]


@hookimpl
def lightrl_rewards() -> list[type]:
    return [GivenReward]


@hookimpl
def lightrl_prompt_sources() -> list[type]:
    return [Unpaired]
