"""Completions from vLLM's own server, over HTTP."""

from typing import Any

from lightrl import hookimpl
from lightrl_vllm.vllm_engine import VLLMEngine
from lightrl_vllm.weight_reload import AdapterReload, FolderReload, WeightReload

__all__ = ["AdapterReload", "FolderReload", "VLLMEngine", "WeightReload"]


@hookimpl
def lightrl_engines() -> list[type[Any]]:
    return [VLLMEngine]
