"""Objectives of preference optimisation: DPO and what came after it."""

from __future__ import annotations

from typing import Any

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
from lightrl_preference.each_completion import NCA, ORPO, SPPO, APODown, APOZero
from lightrl_preference.labelled import BCO, KTO
from lightrl_preference.margins import IPO, Hinge, ReferenceFreeHinge, SimPO

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
    "ReferenceFreeDPO",
    "ReferenceFreeHinge",
    "RobustDPO",
    "SimPO",
]


@hookimpl
def lightrl_objectives() -> list[type[Any]]:
    dpo = [DPO, RobustDPO, ReferenceFreeDPO, LengthNormalizedDPO, ForwardKLDPO, JensenShannonDPO]
    return [*dpo, IPO, KTO, ORPO, SimPO, Hinge, ReferenceFreeHinge, APOZero, APODown, DiscoPOP, EXO, NCA, SPPO, BCO, AOT, AOTUnpaired]
