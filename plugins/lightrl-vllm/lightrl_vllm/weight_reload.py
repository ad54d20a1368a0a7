"""The way in which servers get new weights; the base of all of them."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from lightrl import PolicyWeights
from lightrl_vllm.failures import ServerError
from lightrl_vllm.folder_layout import FolderLayout, read_layout
from lightrl_vllm.server import Answer, Server

REPAIR = "treat the server as dead: end it, start it again, and resume the run"


class WeightReload(ABC):
    """Writes weights into a folder that appears whole, checks it, and has servers read it.

    A server that is asked to read a wrong folder dies, so that nothing is asked before the folder has the layout of the first one.
    """

    config: ClassVar[str] = "config.json"
    """The file that says what the weights belong to."""
    serve: ClassVar[tuple[str, ...]] = ()
    """Words that `vllm serve` needs for it."""

    def __init__(self, folder: Path, limit_s: float) -> None:
        """
        Args:
            folder: for the weights; servers see it under the same path.
            limit_s: seconds that a server may take for an update.
        """
        self.folder, self.limit_s = folder, limit_s
        self._first: FolderLayout | None = None
        self._last: Path | None = None
        self._written = 0

    def write(self, weights: PolicyWeights, version: int) -> Path:
        """Write the weights, check the folder on the first rank, and give its path; collective.

        Args:
            weights: of the policy.
            version: of the weights.
        """
        self._written += 1
        folder = self.folder / f"{self._written}-version-{version}"
        unfinished = self.folder / f".{folder.name}"
        self.save(weights, unfinished)
        weights.on_first_rank(lambda: self._publish(unfinished, folder))
        return folder

    def remove_former(self, folder: Path) -> None:
        """Delete the folder before this one, which every server has read.

        Args:
            folder: from `write`.
        """
        former, self._last = self._last, folder
        if former is not None:
            shutil.rmtree(former)

    def model(self, server: Server) -> str:
        """The name by which requests ask for the policy."""
        return server.model

    @abstractmethod
    def save(self, weights: PolicyWeights, folder: Path) -> None:
        """Write what servers read; collective."""

    @abstractmethod
    async def ask(self, server: Server, folder: Path) -> None:
        """Have a server read a folder while nothing is generated.

        Raises:
            ServerError: it did not.
        """

    async def update(self, server: Server, folder: Path, version: int) -> None:
        """Give a server new weights, and say their version.

        Args:
            server: to be updated.
            folder: from `write`.
            version: of the weights.

        Raises:
            ServerError: the server has not taken them.
        """
        # the default mode ends what runs, and calls it done
        await server.post("/pause?mode=wait", limit_s=self.limit_s)
        await self.ask(server, folder)
        said = await server.post("/update_weight_version", {"new_version": str(version)})
        await server.post("/resume")
        named = said.get("new_version")
        if named != str(version):
            raise ServerError(f"{server.address}/update_weight_version: the version is {named!r}, expected {str(version)!r}: {REPAIR}")

    async def post(self, server: Server, path: str, body: Answer) -> Answer:
        """An answer to a request that is made once: a server that failed it is dead.

        Raises:
            ServerError: says how to go on.
        """
        try:
            return await server.post(path, body, limit_s=self.limit_s, again=False)
        except ServerError as error:
            raise ServerError(f"{error}\nThe weights were not taken: {REPAIR}", error.status) from None

    def compare(self, layout: FolderLayout, known: FolderLayout, where: str) -> None:
        """Refuse weights that a server could not take.

        Args:
            layout: of the weights that were written.
            known: of those that the server has.
            where: they stand.

        Raises:
            ValueError: they differ.
        """
        if differences := known.differences(layout):
            listed = "\n".join(f"  {sentence}" for sentence in differences[:5])
            more = f"\n  and {len(differences) - 5} more" if len(differences) > 5 else ""
            raise ValueError(f"the policy's weights do not fit {where}, and reading them would end the server:\n{listed}{more}")

    def _publish(self, unfinished: Path, folder: Path) -> None:
        layout = read_layout(unfinished, self.config)
        if self._first is None:
            self._first = layout
        self.compare(layout, self._first, "those of the first update")
        unfinished.rename(folder)
