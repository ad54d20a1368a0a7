"""Samplers that choose prompts by what the policy can do."""

from typing import Any

from lightrl import hookimpl
from lightrl_curriculum.edge import EdgeSampler
from lightrl_curriculum.replay import ReplaySampler

__all__ = ["EdgeSampler", "ReplaySampler"]


@hookimpl
def lightrl_samplers() -> list[type[Any]]:
    return [EdgeSampler, ReplaySampler]
