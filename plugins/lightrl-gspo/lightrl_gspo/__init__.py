"""GSPO (Zheng et al. 2025, arXiv:2507.18071) and LUSPO: one importance ratio per completion."""

from lightrl import hookimpl
from lightrl_gspo.gspo import GSPO, LUSPO, GSPOToken, LengthWeightedMean, SequenceTokenRatio

__all__ = ["GSPO", "LUSPO", "GSPOToken", "LengthWeightedMean", "SequenceTokenRatio"]


@hookimpl
def lightrl_algorithms() -> list[type]:
    return [GSPO, LUSPO, GSPOToken]


@hookimpl
def lightrl_ratios() -> list[type]:
    return [SequenceTokenRatio]


@hookimpl
def lightrl_aggregations() -> list[type]:
    return [LengthWeightedMean]
