"""Completions from vLLM's own server, over HTTP."""

from typing import Any

from lightrl import hookimpl
from lightrl_vllm.adapter_reload import AdapterReload
from lightrl_vllm.folder_reload import FolderReload
from lightrl_vllm.vllm_engine import VLLMEngine
from lightrl_vllm.weight_reload import WeightReload

__all__ = ["AdapterReload", "FolderReload", "VLLMEngine", "WeightReload"]


@hookimpl
def lightrl_engines() -> list[type[Any]]:
    return [VLLMEngine]
