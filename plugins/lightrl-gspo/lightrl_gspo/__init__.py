"""GSPO (Zheng et al. 2025, arXiv:2507.18071): one importance ratio per completion."""

from typing import Any

from lightrl import hookimpl
from lightrl_gspo.gspo import GSPO, GSPOToken
from lightrl_gspo.ratio import SequenceTokenRatio

__all__ = ["GSPO", "GSPOToken", "SequenceTokenRatio"]


@hookimpl
def lightrl_algorithms() -> list[type[Any]]:
    return [GSPO, GSPOToken]


@hookimpl
def lightrl_ratios() -> list[type[Any]]:
    return [SequenceTokenRatio]
