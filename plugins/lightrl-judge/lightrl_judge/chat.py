"""One model behind an OpenAI-compatible endpoint: a conversation goes there, a reply comes back or a typed failure."""

import asyncio
import importlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NoReturn

from lightrl import ApiKey, server_address
from lightrl_judge.budget import Budget
from lightrl_judge.failures import RefusedError, TooLargeError, TruncatedError, UnavailableError, WithheldError, beginning

OPENAI = "https://api.openai.com/v1"
NO_KEY = "none"
"""The key sent to a server that wants none: without any, the client would look for one in the environment."""
Messages = list[dict[str, str]]
AGAIN = frozenset({408, 409, 429})
"""Statuses besides those from 500 on after which the same request may succeed."""
OWN_FIELDS = frozenset({"model", "messages", "temperature", "max_tokens", "stream", "n"})
"""Fields of a request that have an argument of their own, or that would change the form of the response."""


@dataclass(frozen=True)
class Completion:
    """The first choice of a chat completion."""

    text: str
    """What the model wrote."""
    finish_reason: str | None
    """Why it ended."""
    refusal: str | None
    """What it wrote in place of an answer."""
    tokens: int | None
    """Of prompt and reply together, at least 0; None if the server does not say."""


def read_completion(body: bytes) -> Completion:
    """The completion in the body of an answer. ValueError: it is none."""
    try:
        answer: Any = json.loads(body)
        choice = answer["choices"][0]
        message, usage = choice["message"], answer.get("usage")
        text, refusal, reason = message.get("content"), message.get("refusal"), choice.get("finish_reason")
        tokens = usage.get("total_tokens") if isinstance(usage, dict) else None
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        raise ValueError("no chat completion") from None
    if not all(one is None or isinstance(one, str) for one in (text, refusal, reason)) or not isinstance(tokens, int | None):
        raise ValueError("no chat completion")
    return Completion(text or "", reason, refusal, None if tokens is None else max(0, tokens))


def retry_after(header: str | None) -> float:
    """Seconds that a `Retry-After` header asks for; 0 if there is none or it says nothing.

    Args:
        header: seconds, or a date.

    Source: RFC 9110, section 10.2.3.
    """
    text = (header or "").strip()
    if text.replace(".", "", 1).isdecimal() and text.isascii():
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return 0.0
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return max(0.0, (date - datetime.now(UTC)).total_seconds())


class Chat:
    """Sends conversations to one model; `openai` does the transport, without retries and time limits of its own."""

    def __init__(
        self,
        model: str,
        base_url: str = OPENAI,
        api_key_env: str | None = "OPENAI_API_KEY",
        temperature: float | None = 0.0,
        max_tokens: int | None = 512,
        extra: dict[str, Any] | None = None,
        budget: Budget | None = None,
    ) -> None:
        """
        Args:
            model: its name on the server.
            base_url: of the endpoint, up to and with `/v1`.
            api_key_env: name of the environment variable that holds the key; None: the server wants none.
            temperature: of the reply; None: the server's default.
            max_tokens: tokens that a reply may have; None: the server's default.
            extra: further fields of the request.
            budget: what it may cost; None: anything.

        Raises:
            ValueError: an argument cannot be used, or there is no key.
        """
        if (temperature is not None and temperature < 0) or (max_tokens is not None and max_tokens < 1):
            raise ValueError(f"temperature must be 0 or more and max_tokens 1 or more, or null; got {temperature} and {max_tokens}")
        taken = sorted(OWN_FIELDS & set(extra or {}))
        if taken:
            raise ValueError(f"extra must not hold {', '.join(taken)}: arguments of their own say that, or replies could not be read")
        self.model, self.max_tokens = model, max_tokens
        self.base_url = server_address(base_url, "base_url", "http://localhost:8000/v1")
        self.key, self.budget = ApiKey(api_key_env), budget or Budget()
        self._extra = dict(extra or {})
        wanted = {"temperature": temperature, "max_tokens": max_tokens}
        self._options = {name: value for name, value in wanted.items() if value is not None}
        self._client: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None
        # it takes a second to load, which is not to be a part of the first call's time limit
        importlib.import_module("openai")

    async def reply(self, messages: Messages, response_format: dict[str, Any] | None = None) -> str:
        """The reply of the model to a conversation.

        Args:
            messages: the conversation.
            response_format: the form that the server is to force on the reply; None: any text.

        Raises:
            UnavailableError: no answer this time.
            RefusedError: the server does not take the request.
            TruncatedError: the reply is cut off.
            TooLargeError: the server sends more than any judgement needs.
            WithheldError: there is a refusal in its place.
            BudgetSpentError: no request may be sent.
        """
        import openai

        options = self._options | ({} if response_format is None else {"response_format": response_format})
        self.budget.take()
        try:
            answer = await self._here().chat.completions.with_raw_response.create(
                model=self.model, messages=messages, extra_body=self._extra or None, **options
            )
        except openai.APIStatusError as error:
            self._complain(error)
        except (openai.OpenAIError, ValueError) as error:
            # the client's own words for a connection that failed do not say how
            reason = error.__cause__ or error
            if isinstance(reason, TooLargeError):
                raise TooLargeError(str(reason)) from None
            raise UnavailableError(self._told(f"no answer: {type(reason).__name__}: {self._said(str(reason))}")) from None
        completion = self._completion(answer.content)
        self.budget.add(completion.tokens)
        return self.key.redact(self._text(completion))

    async def close(self) -> None:
        """Close the connections; the next request opens others."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _here(self) -> Any:
        """The client of the running loop; connections cannot change loops."""
        import openai

        from lightrl_judge.bounded_client import BoundedClient

        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            options: dict[str, Any] = {"timeout": None, "max_retries": 0, "http_client": BoundedClient(timeout=None)}
            self._client = openai.AsyncOpenAI(api_key=self.key.value() or NO_KEY, base_url=self.base_url, **options)
            self._loop = loop
        return self._client

    def _completion(self, body: bytes) -> Completion:
        try:
            return read_completion(body)
        except ValueError as error:
            raise UnavailableError(self._told(f"{error}: {self._said(body.decode(errors='replace'))}")) from None

    def _text(self, completion: Completion) -> str:
        text, reason = completion.text, completion.finish_reason
        if reason == "length":
            cut = f"the reply is cut off (max_tokens: {self.max_tokens}): {self._said(text)}. Raise max_tokens"
            raise TruncatedError(self._told(cut))
        if completion.refusal or reason == "content_filter":
            raise WithheldError(self._told(f"the model declined to answer ({reason}): {self._said(completion.refusal or text)}"))
        return text

    def _complain(self, error: Any) -> NoReturn:
        status, said = error.status_code, self._said(error.message)
        if status in (401, 403):
            # servers like to repeat the key, or parts of it
            named = (
                "no key; api_key_env names the variable that holds one" if self.key.variable is None else f"the key in ${self.key.variable}"
            )
            raise RefusedError(self._told(f"status {status}: the server does not accept {named}")) from None
        if error.code == "insufficient_quota":
            raise RefusedError(self._told(f"status {status}, the account has no quota left: {said}")) from None
        if status in AGAIN or status >= 500:
            raise UnavailableError(self._told(f"status {status}: {said}"), retry_after(error.response.headers.get("retry-after"))) from None
        raise RefusedError(self._told(f"status {status} for model {self.model!r}: {said}")) from None

    def _said(self, text: str) -> str:
        # the key is hidden first: what a cut leaves of it cannot be found any more
        return beginning(self.key.redact(text))

    def _told(self, message: str) -> str:
        return self.key.redact(f"{self.base_url}: {message}")
