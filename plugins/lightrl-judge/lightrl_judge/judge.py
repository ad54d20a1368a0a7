"""The base of all judges among the rewards: the endpoint, its cost, and how often an unreadable reply is asked for again."""

from typing import Annotated, Any

from annotated_types import Ge

from lightrl import AsyncReward
from lightrl_judge.budget import Budget
from lightrl_judge.chat import OPENAI, Chat
from lightrl_judge.failures import UnavailableError


class Judge(AsyncReward):
    """Asks a language model about a completion."""

    transient = (UnavailableError, TimeoutError)

    def __init__(
        self,
        model: str,
        base_url: str = OPENAI,
        api_key_env: str | None = "OPENAI_API_KEY",
        temperature: Annotated[float, Ge(0)] | None = 0.0,
        max_tokens: Annotated[int, Ge(1)] | None = 512,
        ask_again: Annotated[int, Ge(0)] = 1,
        structured: bool = False,
        max_requests: Annotated[int, Ge(1)] | None = None,
        max_tokens_total: Annotated[int, Ge(1)] | None = None,
        extra: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """
        Args:
            model: the judge's name on the server.
            base_url: of an OpenAI-compatible endpoint, up to and with `/v1`.
            api_key_env: name of the environment variable that holds the key; null: the server wants none.
            temperature: of the judge's reply; null: the server's default.
            max_tokens: tokens that a reply may have, its reasoning included; null: the server's default.
            ask_again: how often the judge is told that its reply cannot be read and asked for another; at least 0.
            structured: have the server force replies into their JSON schema, where it can.
            max_requests: requests that may be sent, repeated ones included, by each rank; beyond them rows fail. null: any number.
            max_tokens_total: tokens of prompts and replies that may be used, by each rank; beyond them rows fail. null: any number.
            extra: further fields of the request, such as `{seed: 1}`.
            **kwargs: weight, timeout_s, concurrency, retries and the other arguments of `AsyncReward`.
        """
        super().__init__(**kwargs)
        self.model, self.base_url, self.api_key_env = model, base_url, api_key_env
        self.temperature, self.max_tokens, self.ask_again, self.structured = temperature, max_tokens, ask_again, structured
        self.max_requests, self.max_tokens_total, self.extra = max_requests, max_tokens_total, extra
        self._budget = Budget(max_requests, max_tokens_total)
        self._chat = Chat(model, base_url, api_key_env, temperature, max_tokens, extra, self._budget)

    def counts(self) -> dict[str, float]:
        """Requests and tokens since the last time."""
        return self._budget.news()

    def state_dict(self) -> dict[str, Any]:
        """The part of the budget that was used."""
        return {"requests": self._budget.requests, "tokens": self._budget.tokens}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on counting from there."""
        self._budget.requests, self._budget.tokens = int(state["requests"]), int(state["tokens"])

    async def close(self) -> None:
        """Close the connections."""
        await self._chat.close()
