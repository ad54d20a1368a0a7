"""One server: requests go there, and JSON or a typed failure comes back."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any, TypeVar

import httpx2
from annotated_types import Ge
from pydantic import BaseModel, ConfigDict, ValidationError
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from lightrl import ApiKey, server_address

Answer = dict[str, Any]
"""A JSON object; empty where the server answers with a plain text."""
LARGEST = 64 * 2**20
"""Bytes of an answer, unpacked: some ten times what the longest completion takes."""
BUSY = frozenset({408, 429})
"""Statuses besides those from 500 on after which the same request may succeed."""


class ServerError(RuntimeError):
    """A server does not do what it is asked; the message names it, and says what to do."""

    def __init__(self, message: str, status: int | None = None) -> None:
        """
        Args:
            message: for the user.
            status: of HTTP, if the server has answered.
        """
        super().__init__(message)
        self.status = status


class UnavailableError(ServerError):
    """No answer this time: the same request may succeed later."""


class Form(BaseModel):
    """A part of an answer, by its types; what else a server says is passed over."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False, frozen=True)


class Model(Form):
    """A model, or adapters."""

    id: str
    root: str | None = None
    parent: str | None = None
    max_model_len: Annotated[int, Ge(1)] | None = None


class Models(Form):
    """Those that a server has."""

    data: list[Model] | None = None


Read = TypeVar("Read", bound=Form)


def read_as(form: type[Read], answer: Answer) -> Read:
    """An answer, once it has a form. ServerError: it has not; the message names the first field that is wrong."""
    try:
        return form.model_validate_json(json.dumps(answer))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ServerError(f"the answer has at {place!r} {first['input']!r:.80}: {first['msg']}") from None


def beginning(text: str, limit: int = 300) -> str:
    """The first line of a server's text, or its first characters.

    Args:
        text: of any length.
        limit: characters that are kept.
    """
    (line, *_) = text.strip().splitlines() or ["(nothing)"]
    return line if len(line) <= limit else f"{line[:limit]}..."


FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 20.0
"""Bounds of the random pauses between two attempts, which double."""


def checked_address(address: str) -> str:
    """The address of a server without a slash at its end. ValueError: it is none, or holds a secret."""
    return server_address(address, "addresses", "http://10.0.0.7:8000").rstrip("/").removesuffix("/v1")


class Server:
    """An address that a server listens at."""

    def __init__(self, address: str, key: ApiKey, timeout_s: float, retries: int, concurrency: int) -> None:
        """
        Args:
            address: such as `http://127.0.0.1:8000`.
            key: of the server.
            timeout_s: seconds that an answer may take.
            retries: further attempts at a request that got no answer.
            concurrency: requests under way at a time.
        """
        self.address, self.model, self.root, self.positions = address, "", "", 0
        """Where it is; the name of its model, the folder of that, and tokens of a row, once a dialect has asked for them."""
        self.asleep = False
        """It has given its memory back, and generates nothing."""
        self._key, self._timeout_s, self._retries, self._concurrency = key, timeout_s, retries, concurrency
        self._client: httpx2.AsyncClient | None = None
        self._places = asyncio.Semaphore(concurrency)

    async def open(self) -> None:
        """Get ready to connect; connections belong to the running loop."""
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=self._concurrency)
        # rollouts stay in the cluster: a proxy that the environment names leads out of it
        key = self._key.value()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._client = httpx2.AsyncClient(base_url=self.address, headers=headers, timeout=None, limits=limits, trust_env=False)

    async def models(self) -> list[Model]:
        """Its models; adapters name their base as parent."""
        answer = await self.get("/v1/models")
        try:
            return read_as(Models, answer).data or []
        except ServerError as error:
            raise ServerError(self.told("/v1/models", str(error))) from None

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def get(self, path: str) -> Answer:
        """The answer to a question that changes nothing."""
        return await self._ask("GET", path, None, self._timeout_s, self._retries)

    async def post(self, path: str, body: Answer | None = None, limit_s: float | None = None, again: bool = True) -> Answer:
        """The answer to a request.

        Args:
            path: with its query.
            body: JSON.
            limit_s: seconds that the answer may take; None: as many as every answer.
            again: it may be repeated if there was no answer.

        Raises:
            ServerError: the server refuses it, or gives no answer.
        """
        return await self._ask("POST", path, body or {}, limit_s or self._timeout_s, self._retries if again else 0)

    async def _ask(self, method: str, path: str, body: Answer | None, limit_s: float, retries: int) -> Answer:
        attempts = AsyncRetrying(
            retry=retry_if_exception_type(UnavailableError),
            stop=stop_after_attempt(1 + retries),
            wait=wait_random_exponential(multiplier=FIRST_PAUSE_S, max=LONGEST_PAUSE_S),
            reraise=True,
        )
        async with self._places:
            async for attempt in attempts:
                with attempt:
                    return await self._once(method, path, body, limit_s)
        raise ServerError(self.told(path, "was never asked"))

    async def _once(self, method: str, path: str, body: Answer | None, limit_s: float) -> Answer:
        if self._client is None:
            raise ServerError(self.told(path, "there is no connection: start() comes first"))
        try:
            async with asyncio.timeout(limit_s):
                async with self._client.stream(method, path, json=body) as reply:
                    content = await self._read(path, reply)
        except TimeoutError:
            # a server that hangs would hang again
            raise ServerError(
                self.told(path, f"no answer within {limit_s:g} s: it hangs, or timeout_s is too short for its load")
            ) from None
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            raise UnavailableError(self.told(path, f"no answer: {type(error).__name__}: {self._said(str(error))}")) from None
        if reply.status_code in (401, 403):
            named = "a key; name its variable in api_key_env" if self._key.variable is None else f"another key than ${self._key.variable}"
            raise ServerError(self.told(path, f"status {reply.status_code}: the server wants {named}"))
        if reply.status_code >= 400:
            failure = UnavailableError if reply.status_code in BUSY or reply.status_code >= 500 else ServerError
            raise failure(self.told(path, f"status {reply.status_code}: {self._said(_message(content))}"), reply.status_code)
        return _json(content)

    async def _read(self, path: str, reply: httpx2.Response) -> bytes:
        body = bytearray()
        async for piece in reply.aiter_bytes():
            body += piece
            if len(body) > LARGEST:
                raise ServerError(self.told(path, f"the answer has more than {LARGEST:,} bytes, which no completion has"))
        return bytes(body)

    def _said(self, text: str) -> str:
        # the key is hidden first: what a cut leaves of it cannot be found any more
        return beginning(self._key.redact(text))

    def told(self, path: str, message: str) -> str:
        """A message about this server, without its key, and without characters that a terminal obeys."""
        shown = "".join(letter if letter.isprintable() or letter == "\n" else repr(letter)[1:-1] for letter in message)
        return self._key.redact(f"{self.address}{path}: {shown}")

    def named(self, error: ServerError, before: str = "") -> ServerError:
        """An error that begins with this server: as it is, or with a text in front of it."""
        return error if str(error).startswith(self.address) else ServerError(self.told("", f"{before}{error}"))


def _json(content: bytes) -> Answer:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _message(content: bytes) -> str:
    found = _json(content)
    said = found.get("error", found)
    told = said.get("message") if isinstance(said, dict) else said
    return told if isinstance(told, str) else content.decode(errors="replace")
