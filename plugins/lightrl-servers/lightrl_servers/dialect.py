"""The ways in which one kind of server differs from another: its routes, its program, and its words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal

from lightrl import Request, Sampling
from lightrl_servers.completion import Completion
from lightrl_servers.device_share import Room
from lightrl_servers.own_server import Program
from lightrl_servers.server import Server
from lightrl_servers.words import Words


class Dialect(ABC):
    """The way in which one kind of server is asked. It holds no state."""

    words: ClassVar[Words]
    """Names of options and fields, for messages."""
    program: ClassVar[Program]
    """Starts a server of the run's own."""

    @abstractmethod
    async def describe(self, server: Server) -> None:
        """Fill in `model`, `root` and `positions` of a server.

        Raises:
            ServerError: it serves no model, or lacks a route that an update needs.
        """

    @abstractmethod
    async def complete(self, server: Server, request: Request, adapters: str | None, limit_s: float | None) -> Completion:
        """The answer of a server to a request, not yet checked against it.

        Args:
            server: connected and described.
            request: of the rollout.
            adapters: the name of those that the policy has there; None: the model itself.
            limit_s: seconds that the answer may take; None: as many as every answer.

        Raises:
            ServerError: the server refuses, gives no answer, or one of another form.
        """

    @abstractmethod
    async def sleep(self, server: Server, keep_weights: bool) -> None:
        """Have an idle server give back the memory of keys and values and of its weights, which it keeps elsewhere or drops."""

    @abstractmethod
    async def wake(self, server: Server, what: Literal["weights", "kv_cache"]) -> None:
        """Have it take one of both back, the weights first; a ServerError if it sleeps on."""

    @abstractmethod
    def share_words(self, room: Room, words: Sequence[str], keep_weights: bool) -> list[str]:
        """Words for a server of the run's own that sleeps, and that takes no more of the device than there is room.

        Raises:
            ValueError: the words of the config name a larger share.
        """

    @abstractmethod
    def start_words(self, sampling: Sampling) -> list[str]:
        """Words for a server of the run's own whose log-probs fit the sampling."""
