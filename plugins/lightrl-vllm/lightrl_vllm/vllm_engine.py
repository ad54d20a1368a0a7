"""The engine: completions from vLLM's own servers."""

from __future__ import annotations

from types import MappingProxyType

from lightrl_servers.server_engine import ServerEngine

from lightrl_vllm.vllm_dialect import VLLMDialect
from lightrl_vllm.weight_reload import AdapterReload, FolderReload


class VLLMEngine(ServerEngine):
    """Continues contexts with vLLM's own server, tokens in and tokens out, and keeps its weights those of the policy.

    Nothing of vLLM is imported. Without addresses it starts `vllm serve` from the path when the first weights come. What a server does
    is found out when it is connected; where its log-probs mean something else than ours, the trainer computes its own.
    """

    dialect = VLLMDialect()
    reloads = MappingProxyType({"folder": FolderReload, "adapters": AdapterReload})
