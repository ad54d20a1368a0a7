"""Completions from SGLang's own server, over HTTP."""

from typing import Any

from lightrl import hookimpl
from lightrl_sglang.sglang_engine import SGLangEngine
from lightrl_sglang.weight_reload import AdapterReload, FolderReload

__all__ = ["AdapterReload", "FolderReload", "SGLangEngine"]


@hookimpl
def lightrl_engines() -> list[type[Any]]:
    return [SGLangEngine]
