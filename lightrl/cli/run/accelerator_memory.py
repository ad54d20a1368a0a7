"""The settings of CUDA's memory that a run wants; they are read when CUDA starts."""

from __future__ import annotations

from collections.abc import MutableMapping

from lightrl.versions import CUDA_MEMORY_VARIABLES, cuda_memory_variable

SETTING = "expandable_segments:True"
"""Batches of changing lengths otherwise leave holes in the memory that no later one fits."""


def let_segments_expand(environment: MutableMapping[str, str], torch_version: str) -> None:
    """Let segments of memory grow, unless the user has said anything about CUDA's memory.

    Args:
        environment: of the process and of those that it starts.
        torch_version: such as `2.9.1+cu128`.
    """
    if not any(name in environment for name in CUDA_MEMORY_VARIABLES):
        environment[cuda_memory_variable(torch_version)] = SETTING
