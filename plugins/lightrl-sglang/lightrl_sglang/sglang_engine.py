"""The engine: completions from SGLang's own servers."""

from __future__ import annotations

from types import MappingProxyType

from lightrl_servers.server_engine import ServerEngine

from lightrl_sglang.sglang_dialect import SGLangDialect
from lightrl_sglang.weight_reload import AdapterReload, FolderReload


class SGLangEngine(ServerEngine):
    """Continues contexts with SGLang's own server, tokens in and tokens out, and keeps its weights those of the policy.

    Nothing of SGLang is imported. Without addresses it starts `sglang serve` from the path when the first weights come. What a server does
    is found out when it is connected; where its log-probs mean something else than ours, the trainer computes its own.
    """

    dialect = SGLangDialect()
    reloads = MappingProxyType({"folder": FolderReload, "adapters": AdapterReload})
