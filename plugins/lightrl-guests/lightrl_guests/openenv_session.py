"""A session of a server of OpenEnv: one WebSocket, on which the server keeps one environment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

JSON = Any
"""A value that `json.dumps` takes."""
LARGEST_MESSAGE = 4_000_000
"""Bytes of one message of a server."""
START = "Is the server started, and `url` its address?"
UNSENT = "Unable to serialize unknown type: <class 'ValueError'>"
VALIDATOR = ". OpenEnv cannot send the ValueError of a validator: let that of the action raise pydantic_core.PydanticCustomError"
ROOM = "start it with max_concurrent_envs of twice the episodes of a rollout (prompts_per_rollout times group_size)"


class OpenEnvError(Exception):
    """A server of OpenEnv that cannot be reached, has failed, or answers something else than its protocol has."""


class RefusedAction(Exception):  # noqa: N818 - it is the answer to an action
    """The server finds that an action has not the form that it takes; the message is for the policy."""


class Observed(NamedTuple):
    """The answer of a server to `reset` or `step`."""

    observation: Mapping[str, JSON]
    reward: JSON
    done: JSON


def read_page(url: str, path: str, seconds: float) -> Mapping[str, JSON]:
    """The JSON object of a page of the server; an OpenEnvError if there is none."""
    try:
        # a proxy for the world outside is none for a server on this machine
        with build_opener(ProxyHandler({})).open(url.rstrip("/") + path, timeout=seconds) as answer:
            page = json.loads(answer.read(LARGEST_MESSAGE))
    except (URLError, OSError, ValueError) as error:
        raise OpenEnvError(f"{url}{path} cannot be read: {error}. {START}") from error
    if not isinstance(page, dict):
        raise OpenEnvError(f"{url}{path} is {type(page).__name__}, expected a JSON object. {START}")
    return page


class Session:
    """One WebSocket of the server; not connected before the first request."""

    def __init__(self, url: str) -> None:
        """`url`: of the server, with http or https."""
        self.url = url.rstrip("/")
        self._socket: ClientConnection | None = None

    async def reset(self, arguments: Mapping[str, JSON]) -> Observed:
        """Begin an episode; an OpenEnvError if the server does not."""
        from websockets.asyncio.client import connect
        from websockets.exceptions import WebSocketException

        try:
            address = "ws" + self.url.removeprefix("http") + "/ws"
            # the time limit is that of the call
            self._socket = await connect(address, open_timeout=None, close_timeout=1, max_size=LARGEST_MESSAGE, proxy=None)
        except (OSError, WebSocketException) as error:
            raise OpenEnvError(f"{self.url} opens no session: {error}. {START}") from error
        try:
            return await self._asked("reset", arguments)
        except RefusedAction as error:
            raise OpenEnvError(f"{self.url} refuses reset with {json.dumps(arguments)[:200]}: {error}") from error

    async def step(self, action: Mapping[str, JSON]) -> Observed:
        """Take an action; a RefusedAction if it has not the right form, an OpenEnvError if anything else goes wrong."""
        return await self._asked("step", action)

    async def close(self) -> None:
        """End the session, if there is one."""
        socket, self._socket = self._socket, None
        if socket is not None:
            await socket.close()

    async def _asked(self, what: str, data: Mapping[str, JSON]) -> Observed:
        from websockets.exceptions import ConnectionClosed

        if self._socket is None:
            raise OpenEnvError(f"the session with {self.url} is over, or has not begun")
        # a server without room says so before it is asked, and hangs up
        closed = ""
        try:
            await self._socket.send(json.dumps({"type": what, "data": data}))
        except ConnectionClosed as error:
            closed = str(error)
        try:
            text = await self._socket.recv()
        except ConnectionClosed as error:
            raise OpenEnvError(f"{self.url} ended the session instead of answering {what}: {closed or error}") from error
        return self._read(what, data, text)

    def _read(self, what: str, sent: Mapping[str, JSON], text: str | bytes) -> Observed:
        try:
            message = json.loads(text)
        except ValueError as error:
            raise OpenEnvError(f"{self.url} answers {what} with no JSON ({error}): {text[:80]!r}") from error
        kind, data = (message.get("type"), message.get("data")) if isinstance(message, dict) else (None, None)
        if kind == "error":
            self._refused(what, sent, data if isinstance(data, dict) else {})
        if kind != "observation" or not isinstance(data, dict) or not isinstance(data.get("observation"), dict):
            raise OpenEnvError(f"{self.url} answers {what} with {text[:120]!r}, expected a message of the type `observation`")
        return Observed(data["observation"], data.get("reward"), data.get("done", False))

    def _refused(self, what: str, sent: Mapping[str, JSON], data: Mapping[str, JSON]) -> NoReturn:
        code, said = data.get("code"), str(data.get("message") or "no message")[:500]
        if code == "VALIDATION_ERROR":
            errors = data.get("errors")
            found = [one for one in errors if isinstance(one, dict)] if isinstance(errors, list) else []
            places = [list(map(str, one.get("loc") or ())) for one in found]
            said = "; ".join(f"{'.'.join(place)}: {one.get('msg')}" for place, one in zip(places, found, strict=True)) or said
            # the code is the same for an observation that the environment itself forms badly
            if {place[0] for place in places if place} <= set(sent):
                raise RefusedAction(said)
        advice = {"CAPACITY_REACHED": f". The server has room for {data.get('max_sessions')} sessions: {ROOM}"}.get(str(code), "")
        raise OpenEnvError(f"{self.url} answers {what} with {code}: {said}{VALIDATOR if UNSENT in said else advice}")
