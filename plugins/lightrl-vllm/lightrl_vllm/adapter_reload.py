"""The adapters alone, beside a base that the server keeps."""

from __future__ import annotations

from pathlib import Path

from lightrl import PolicyWeights
from lightrl_vllm.server import Server
from lightrl_vllm.weight_reload import WeightReload

NAME = "lightrl-policy"
"""Of the adapters on the server."""


class AdapterReload(WeightReload):
    """Writes a PEFT folder, which the server loads in place of the adapters before; the policy must have been trained on its base."""

    config = "adapter_config.json"
    serve = ("--enable-lora",)

    def model(self, server: Server) -> str:
        """The adapters' name."""
        return NAME

    def save(self, weights: PolicyWeights, folder: Path) -> None:
        """Write the adapters."""
        weights.save_adapters(folder)

    async def ask(self, server: Server, folder: Path) -> None:
        """Load the adapters; those that are there already, in place."""
        models = (await server.get("/v1/models")).get("data", [])
        there = any(model.get("id") == NAME for model in models)
        body = {"lora_name": NAME, "lora_path": str(folder), **({"load_inplace": True} if there else {})}
        await self.post(server, "/v1/load_lora_adapter", body)
