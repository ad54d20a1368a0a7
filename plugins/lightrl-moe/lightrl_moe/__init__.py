"""Mixture-of-experts policies: evenly used experts, tokens that are routed differently, and routing replay."""

from lightrl import hookimpl
from lightrl_moe.balance import Balance, RouterBalance
from lightrl_moe.policy import PretrainedMixture, TinyMixture
from lightrl_moe.routes import ReplayedSequenceRatio, ReplayedTokenRatio, RoutedSequenceRatio, RoutedTokenRatio, Routes

__all__ = [
    "Balance",
    "PretrainedMixture",
    "ReplayedSequenceRatio",
    "ReplayedTokenRatio",
    "RoutedSequenceRatio",
    "RoutedTokenRatio",
    "RouterBalance",
    "Routes",
    "TinyMixture",
]


@hookimpl
def lightrl_loss_terms() -> list[type]:
    return [RouterBalance]


@hookimpl
def lightrl_policies() -> list[type]:
    return [PretrainedMixture, TinyMixture]


@hookimpl
def lightrl_ratios() -> list[type]:
    return [ReplayedSequenceRatio, ReplayedTokenRatio, RoutedSequenceRatio, RoutedTokenRatio]
