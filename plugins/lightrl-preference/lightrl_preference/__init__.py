"""Objectives of preference optimisation: DPO and what came after it."""

from __future__ import annotations

from typing import Any

from lightrl import hookimpl
from lightrl_preference.dpo import DPO, ReferenceFreeDPO, RobustDPO
from lightrl_preference.hinge import Hinge, ReferenceFreeHinge
from lightrl_preference.ipo import IPO
from lightrl_preference.kto import KTO
from lightrl_preference.orpo import ORPO
from lightrl_preference.simpo import SimPO

__all__ = ["DPO", "IPO", "KTO", "ORPO", "Hinge", "ReferenceFreeDPO", "ReferenceFreeHinge", "RobustDPO", "SimPO"]


@hookimpl
def lightrl_objectives() -> list[type[Any]]:
    return [DPO, IPO, KTO, ORPO, Hinge, ReferenceFreeDPO, ReferenceFreeHinge, RobustDPO, SimPO]
