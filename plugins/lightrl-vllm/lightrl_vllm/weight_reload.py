"""The ways in which servers of vLLM get new weights: all of them through a folder, or adapters alone."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path

from lightrl_servers import weight_reload as shared
from lightrl_servers.server import Server


class WeightReload(shared.WeightReload):
    """Pauses a server, has it read a folder, and resumes it."""

    @abstractmethod
    async def ask(self, server: Server, folder: Path) -> None:
        """Have a server read a folder while nothing is generated, or raise a ServerError."""

    async def update(self, server: Server, folder: Path, version: int) -> None:
        """Give a server new weights from the folder of `write`, and say their version; a ServerError if it has not taken them."""
        if not server.asleep:
            # the default mode ends what runs, and calls it done
            await server.post("/pause?mode=wait", limit_s=self.limit_s)
        await self.ask(server, folder)
        await self.set_version(server, version)
        if not server.asleep:
            await server.post("/resume")


class FolderReload(shared.FolderWeights, WeightReload):
    """Writes a Hugging Face folder; each worker of the server calls `reload_weights` with its path."""

    async def ask(self, server: Server, folder: Path) -> None:
        """Call `reload_weights` in every worker."""
        body = {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}, "timeout": self.limit_s}
        await self.post(server, "/collective_rpc", body)

    async def update(self, server: Server, folder: Path, version: int) -> None:
        """As every update, once sizes, names and shapes have been compared with those of the model that the server began with."""
        self.check_served(server, folder)
        await super().update(server, folder, version)


class AdapterReload(shared.AdapterWeights, WeightReload):
    """Writes a PEFT folder, which the server loads in place of the adapters before; the policy must have been trained on its base."""

    serve = ("--enable-lora",)

    async def ask(self, server: Server, folder: Path) -> None:
        """Load the adapters; those that are there already, in place."""
        there = any(model.id == self.adapters for model in await server.models())
        body = {"lora_name": self.adapters, "lora_path": str(folder), **({"load_inplace": True} if there else {})}
        await self.post(server, "/v1/load_lora_adapter", body)
