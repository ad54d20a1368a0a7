"""A reward for completions that match a pattern."""

from typing import Any, Literal

from lightrl import Prompt, RowReward


class RegularExpression(RowReward):
    """Whether a regular expression matches the completion.

    R = found if it does, else missing. Matching is by the `regex` library (its syntax is that of `re` and more), which gives up after
    `limit_s`: a pattern that would take for ever is an error of that row.
    """

    runs = "inline"

    def __init__(
        self,
        pattern: str,
        where: Literal["search", "match", "fullmatch"] = "search",
        found: float = 1.0,
        missing: float = 0.0,
        limit_s: float = 1.0,
        **kwargs: Any,
    ) -> None:
        r"""
        Args:
            pattern: the expression; flags stand in front of it, `(?is)`.
            where: `search` finds it anywhere, `match` at the beginning, `fullmatch` wants the whole completion.
            found: the score of a completion that matches.
            missing: the score of one that does not.
            limit_s: seconds after which a match is given up; above 0.
            **kwargs: weight and the other arguments of every reward.

        Raises:
            ValueError: the pattern is no regular expression, or the limit is not above 0.
        """
        import regex

        super().__init__(**kwargs)
        if limit_s <= 0:
            raise ValueError(f"RegularExpression needs limit_s > 0, got {limit_s}")
        try:
            regex.compile(pattern)
        except regex.error as error:
            raise ValueError(f"RegularExpression cannot read the pattern {pattern!r}: {error}") from error
        self.pattern, self.where, self.found, self.missing, self.limit_s = pattern, where, found, missing, limit_s

    def score(self, prompt: Prompt, completion: str) -> float:
        """`found` or `missing`.

        Raises:
            TimeoutError: it could not be told in `limit_s` seconds.
        """
        import regex

        try:
            match = getattr(regex, self.where)(self.pattern, completion, timeout=self.limit_s)
        except TimeoutError as error:
            raise TimeoutError(f"the pattern {self.pattern!r} did not come to an end within {self.limit_s:g} s") from error
        return self.missing if match is None else self.found
