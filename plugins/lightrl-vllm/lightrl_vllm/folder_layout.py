"""The layout of a folder with weights: its config, and names, dtypes and shapes of its tensors, read without loading them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

IGNORED = frozenset({"transformers_version", "_name_or_path", "use_cache", "torch_dtype", "dtype", "architectures"})
"""Entries of a config that change no tensor."""
HEADER_BYTES = 8
"""The length of a header stands in the first bytes of a file."""


@dataclass(frozen=True)
class FolderLayout:
    """The config and the tensors of a folder; two that are equal can take each other's place in a running server."""

    config: dict[str, Any]
    """Of the model, or of the adapters."""
    tensors: dict[str, tuple[str, tuple[int, ...]]]
    """By name, dtype and shape."""

    def differences(self, other: FolderLayout) -> list[str]:
        """Each thing in which another layout differs, as a sentence."""
        keys = sorted((self.config.keys() | other.config.keys()) - IGNORED)
        config = [f"{key} is {other.config.get(key)!r}, was {self.config.get(key)!r}" for key in keys if _differ(key, self, other)]
        names = sorted(self.tensors.keys() | other.tensors.keys())
        tensors = [
            f"tensor {name} is {_shown(other.tensors.get(name))}, was {_shown(self.tensors.get(name))}"
            for name in names
            if self.tensors.get(name) != other.tensors.get(name)
        ]
        return config + tensors


def read_layout(folder: Path, config: str = "config.json") -> FolderLayout:
    """The layout of a folder.

    Args:
        folder: with `*.safetensors`.
        config: name of the file with the config.

    Raises:
        ValueError: the folder is not there, or holds no weights or no config.
    """
    if not (folder / config).is_file():
        raise ValueError(f"there is no {config} in {str(folder)!r}")
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ValueError(f"there is no safetensors file in {str(folder)!r}")
    tensors = {name: about for file in files for name, about in _tensors(file).items()}
    return FolderLayout(json.loads((folder / config).read_text()), tensors)


def _tensors(file: Path) -> dict[str, tuple[str, tuple[int, ...]]]:
    with file.open("rb") as opened:
        header = json.loads(opened.read(int.from_bytes(opened.read(HEADER_BYTES), "little")))
    return {name: (about["dtype"], tuple(about["shape"])) for name, about in header.items() if name != "__metadata__"}


def _differ(key: str, one: FolderLayout, other: FolderLayout) -> bool:
    return bool(one.config.get(key) != other.config.get(key))


def _shown(about: tuple[str, tuple[int, ...]] | None) -> str:
    return "missing" if about is None else f"{about[0]} {list(about[1])}"
