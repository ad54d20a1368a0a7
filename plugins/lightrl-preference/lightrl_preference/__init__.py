"""Objectives of preference optimisation: DPO and what came after it."""

from __future__ import annotations

from typing import Any

from lightrl import hookimpl
from lightrl_preference.aot import AOT, AOTUnpaired
from lightrl_preference.apo import APODown, APOZero
from lightrl_preference.bco import BCO
from lightrl_preference.discopop import DiscoPOP
from lightrl_preference.dpo import DPO, ReferenceFreeDPO, RobustDPO
from lightrl_preference.exo import EXO
from lightrl_preference.f_dpo import ForwardKLDPO, JensenShannonDPO
from lightrl_preference.hinge import Hinge, ReferenceFreeHinge
from lightrl_preference.ipo import IPO
from lightrl_preference.kto import KTO
from lightrl_preference.length_normalized import LengthNormalizedDPO
from lightrl_preference.mixed_objective import MixedObjective
from lightrl_preference.nca import NCA
from lightrl_preference.orpo import ORPO
from lightrl_preference.simpo import SimPO
from lightrl_preference.sppo import SPPO
from lightrl_preference.unpaired import Unpaired

__all__ = [
    "AOT",
    "BCO",
    "DPO",
    "EXO",
    "IPO",
    "KTO",
    "NCA",
    "ORPO",
    "SPPO",
    "AOTUnpaired",
    "APODown",
    "APOZero",
    "DiscoPOP",
    "ForwardKLDPO",
    "Hinge",
    "JensenShannonDPO",
    "LengthNormalizedDPO",
    "MixedObjective",
    "ReferenceFreeDPO",
    "ReferenceFreeHinge",
    "RobustDPO",
    "SimPO",
    "Unpaired",
]


@hookimpl
def lightrl_objectives() -> list[type[Any]]:
    dpo = [DPO, RobustDPO, ReferenceFreeDPO, LengthNormalizedDPO, ForwardKLDPO, JensenShannonDPO]
    others = [IPO, KTO, ORPO, SimPO, Hinge, ReferenceFreeHinge, APOZero, APODown, DiscoPOP, EXO, NCA, SPPO, BCO, AOT, AOTUnpaired]
    return [*dpo, *others, MixedObjective]


@hookimpl
def lightrl_prompt_sources() -> list[type[Any]]:
    return [Unpaired]
