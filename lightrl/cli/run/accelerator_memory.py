"""The settings of CUDA's memory that a run wants; they are read when CUDA starts."""

from __future__ import annotations

from collections.abc import MutableMapping

NAMES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
"""Environment variables, the present name and the one before torch 2.9."""
SETTING = "expandable_segments:True"
"""Batches of changing lengths otherwise leave holes in the memory that no later one fits."""


def let_segments_expand(environment: MutableMapping[str, str], torch_version: str) -> None:
    """Let segments of memory grow, unless the user has said anything about CUDA's memory.

    Args:
        environment: of the process and of those that it starts.
        torch_version: such as `2.9.1+cu128`.
    """
    if not any(name in environment for name in NAMES):
        release = tuple(int(part) for part in torch_version.split("+")[0].split(".")[:2])
        environment[NAMES[0] if release >= (2, 9) else NAMES[1]] = SETTING
