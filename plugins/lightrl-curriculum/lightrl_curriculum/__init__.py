"""Samplers that choose prompts by what the policy can do, and a source that mixes several data sets."""

from typing import Any

from lightrl import hookimpl
from lightrl_curriculum.edge import EdgeSampler
from lightrl_curriculum.mixture import LinearShare, Mixture
from lightrl_curriculum.replay import ReplaySampler

__all__ = ["EdgeSampler", "LinearShare", "Mixture", "ReplaySampler"]


@hookimpl
def lightrl_samplers() -> list[type[Any]]:
    return [EdgeSampler, ReplaySampler]


@hookimpl
def lightrl_prompt_sources() -> list[type[Any]]:
    return [Mixture]
