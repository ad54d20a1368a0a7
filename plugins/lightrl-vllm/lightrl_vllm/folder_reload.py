"""All weights through a folder, which servers read in place of their own."""

from __future__ import annotations

from pathlib import Path

from lightrl import PolicyWeights
from lightrl_vllm.folder_layout import FolderLayout, read_layout
from lightrl_vllm.server import Server
from lightrl_vllm.weight_reload import WeightReload

SIZES = (
    "model_type",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "vocab_size",
    "tie_word_embeddings",
)
"""Entries of a config that say which tensors there are, and what they mean."""


class FolderReload(WeightReload):
    """Writes a Hugging Face folder; each worker of the server calls `reload_weights` with its path.

    The server's own model must have the same layout. That is checked where its folder can be seen from here.
    """

    def save(self, weights: PolicyWeights, folder: Path) -> None:
        """Write weights, config and tokenizer, adapters added."""
        weights.save(folder)

    async def ask(self, server: Server, folder: Path) -> None:
        """Call `reload_weights` in every worker."""
        body = {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}, "timeout": self.limit_s}
        await self.post(server, "/collective_rpc", body)

    async def update(self, server: Server, folder: Path, version: int) -> None:
        """As every update, once sizes, names and shapes have been compared with those of the model that the server began with."""
        self._check_served(server, folder)
        await super().update(server, folder, version)

    def _check_served(self, server: Server, folder: Path) -> None:
        served = Path(server.root)
        if not server.root or not (served / "config.json").is_file() or not list(served.glob("*.safetensors")):
            return
        mine, theirs = read_layout(folder), read_layout(served)
        common = mine.tensors.keys() & theirs.tensors.keys()
        # dtypes may differ, and what is tied may be there twice
        shapes = [FolderLayout(_of_sizes(layout), {name: ("", layout.tensors[name][1]) for name in common}) for layout in (mine, theirs)]
        self.compare(shapes[0], shapes[1], f"the model that {server.address} serves, {server.root!r}")


def _of_sizes(layout: FolderLayout) -> dict[str, object]:
    return {key: value for key, value in layout.config.items() if key in SIZES}
