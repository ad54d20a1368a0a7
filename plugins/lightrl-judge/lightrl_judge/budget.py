"""How much a judge may cost."""

from collections import Counter

from lightrl_judge.failures import BudgetSpentError, JudgeError


class Budget:
    """Counts requests and tokens, and says when there is nothing left.

    Every request counts, repeated ones too. Tokens are known only when a reply is there, so requests under way when the limit is
    reached go beyond it.
    """

    def __init__(self, max_requests: int | None = None, max_tokens_total: int | None = None) -> None:
        """
        Args:
            max_requests: requests that may be sent; None: any number.
            max_tokens_total: tokens of prompts and replies together, as the server counts them; None: any number.

        Raises:
            ValueError: a limit below 1.
        """
        if any(limit is not None and limit < 1 for limit in (max_requests, max_tokens_total)):
            raise ValueError(f"max_requests and max_tokens_total must be 1 or more, or null; got {max_requests} and {max_tokens_total}")
        self.max_requests, self.max_tokens_total = max_requests, max_tokens_total
        self.requests = self.tokens = 0
        self._new: Counter[str] = Counter()

    def take(self) -> None:
        """A request is about to be sent; a BudgetSpentError if it may not be."""
        for name, used, limit in (
            ("max_requests", self.requests, self.max_requests),
            ("max_tokens_total", self.tokens, self.max_tokens_total),
        ):
            if limit is not None and used >= limit:
                raise BudgetSpentError(f"{name} is {limit} and {used} are used: raise it and resume, or leave it out for no limit")
        self.requests += 1
        self._new["requests"] += 1

    def add(self, tokens: int | None) -> None:
        """A reply is there, with its tokens if the server counts them; a JudgeError if it does not and they are limited."""
        if tokens is None and self.max_tokens_total is not None:
            raise JudgeError("the server reports no usage, so max_tokens_total cannot be kept: use max_requests")
        self.tokens += tokens or 0
        self._new["tokens"] += tokens or 0

    def news(self) -> dict[str, float]:
        """Requests and tokens since the last time."""
        new, self._new = self._new, Counter()
        return {"requests": new["requests"], "tokens": new["tokens"]}
