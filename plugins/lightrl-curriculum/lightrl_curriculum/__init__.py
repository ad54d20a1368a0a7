"""Samplers that choose prompts by what the policy can do, a mixture of data sets, and environments side by side."""

from lightrl import hookimpl
from lightrl_curriculum.by_column import EnvironmentByColumn
from lightrl_curriculum.edge import EdgeSampler
from lightrl_curriculum.mixture import LinearShare, Mixture
from lightrl_curriculum.replay import ReplaySampler

__all__ = ["EdgeSampler", "EnvironmentByColumn", "LinearShare", "Mixture", "ReplaySampler"]


@hookimpl
def lightrl_samplers() -> list[type]:
    return [EdgeSampler, ReplaySampler]


@hookimpl
def lightrl_prompt_sources() -> list[type]:
    return [Mixture]


@hookimpl
def lightrl_environments() -> list[type]:
    return [EnvironmentByColumn]
