"""The ways in which servers of SGLang get new weights: all of them through a folder, or adapters alone."""

from __future__ import annotations

from pathlib import Path

from lightrl_servers.server import Answer, Server, ServerError
from lightrl_servers.weight_reload import REPAIR, AdapterWeights, FolderWeights

UPDATE = "/update_weights_from_disk"


def expect_success(server: Server, path: str, answer: Answer) -> None:
    """A ServerError if the answer to an update does not say that it has succeeded."""
    if answer.get("success") is not True:
        said = answer.get("message") or answer.get("error_message") or "nothing"
        raise ServerError(server.told(path, f"success is {answer.get('success')!r}, and it says {str(said)!r:.300}: {REPAIR}"))


class FolderReload(FolderWeights):
    """Writes a Hugging Face folder, which the server reads once nothing is generated; it forgets keys and values, and has the version."""

    async def update(self, server: Server, folder: Path, version: int) -> None:
        """Have a server read the folder, once sizes, names and shapes have been compared with those of the model that it began with."""
        self.check_served(server, folder)
        body: Answer = {"model_path": str(folder), "weight_version": str(version), "flush_cache": True, "abort_all_requests": False}
        expect_success(server, UPDATE, await self.post(server, UPDATE, body))
        named = (await server.get("/model_info")).get("weight_version")
        if named != str(version):
            raise ServerError(server.told("/model_info", f"the version is {named!r}, expected {str(version)!r}: {REPAIR}"))


class AdapterReload(AdapterWeights):
    """Writes a PEFT folder, which the server loads once the adapters before are gone; the policy must have been trained on its base."""

    serve = ("--enable-lora", "--lora-target-modules", "all")

    async def update(self, server: Server, folder: Path, version: int) -> None:
        """Unload the adapters that are there, load others under their name, and say the version."""
        if any(model.id == self.adapters for model in await server.models()):
            await self._post(server, "/unload_lora_adapter", {"lora_name": self.adapters})
        await self._post(server, "/load_lora_adapter", {"lora_name": self.adapters, "lora_path": str(folder)})
        await self.set_version(server, version, abort_all_requests=False)

    async def _post(self, server: Server, path: str, body: Answer) -> None:
        expect_success(server, path, await self.post(server, path, body))
