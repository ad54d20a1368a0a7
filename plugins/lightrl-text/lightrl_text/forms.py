"""Rewards for completions that keep to a form: a regular expression, or tags in order."""

from typing import Annotated, Any, Literal

from annotated_types import Gt

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
        limit_s: Annotated[float, Gt(0)] = 1.0,
        **kwargs: Any,
    ) -> None:
        r"""
        Args:
            pattern: the expression; flags come first, `(?is)`.
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
        try:
            regex.compile(pattern)
        except regex.error as error:
            raise ValueError(f"RegularExpression cannot read the pattern {pattern!r}: {error}") from error
        self.pattern, self.where, self.found, self.missing, self.limit_s = pattern, where, found, missing, limit_s

    def score(self, prompt: Prompt, completion: str) -> float:
        """`found` or `missing`. TimeoutError: it was not decided within `limit_s` seconds."""
        import regex

        try:
            match = getattr(regex, self.where)(self.pattern, completion, timeout=self.limit_s)
        except TimeoutError as error:
            raise TimeoutError(f"the pattern {self.pattern!r} did not come to an end within {self.limit_s:g} s") from error
        return self.missing if match is None else self.found


class TagFormat(RowReward):
    """How well a completion keeps to `<think>...</think><answer>...</answer>`, from 0 to 1.

    R = the mean of: for each tag, whether it is opened once and then closed once; whether the tags stand in order with nothing but white
    space between and around them; and, if a number of steps is asked for, how well that is met: 1 within the range, else n / min_steps
    or max_steps / n. A step is a line with text in the first tag.

    Source: Guo et al. 2025 (DeepSeek-R1), arXiv:2501.12948, section 2.2.2, with partial credit added.
    """

    runs = "inline"

    def __init__(
        self,
        tags: tuple[str, ...] = ("think", "answer"),
        opened: bool = False,
        min_steps: int = 0,
        max_steps: int | None = None,
        strict: bool = False,
        **kwargs: Any,
    ) -> None:
        """
        Args:
            tags: their names, in order; at least one, all different.
            opened: the prompt ends with the first opening tag, as with chat templates that begin the thinking.
            min_steps: fewest steps in the first tag; at least 0.
            max_steps: most steps in the first tag; null: any number.
            strict: 1 for a completion that keeps to everything, else 0.
            **kwargs: weight and the other arguments of every reward.

        Raises:
            ValueError: no tag, a tag twice or with other characters than letters, digits, `_` and `-`, or a range without a number.
        """
        super().__init__(**kwargs)
        if not tags or len(set(tags)) < len(tags) or not all(tag.replace("-", "_").isidentifier() for tag in tags):
            raise ValueError(f"TagFormat needs tags with different names such as think, answer; got {list(tags)}")
        if min_steps < 0 or (max_steps is not None and max_steps < max(1, min_steps)):
            raise ValueError(f"TagFormat needs 0 <= min_steps <= max_steps and max_steps >= 1, got {min_steps} and {max_steps}")
        self.tags, self.opened, self.strict = tuple(tags), opened, strict
        self.min_steps, self.max_steps = min_steps, max_steps

    def score(self, prompt: Prompt, completion: str) -> float:
        """The mean of the checks, or with `strict` whether all are met."""
        text = f"<{self.tags[0]}>{completion}" if self.opened else completion
        whole = [_once(text, tag) for tag in self.tags]
        checks = [float(found) for found in whole]
        checks.append(float(all(whole) and _in_order(text, self.tags)))
        if self.min_steps > 0 or self.max_steps is not None:
            checks.append(self._steps_met(text) if whole[0] else 0.0)
        score = sum(checks) / len(checks)
        return float(score == 1.0) if self.strict else score

    def _steps_met(self, text: str) -> float:
        inside = text.partition(f"<{self.tags[0]}>")[2].partition(f"</{self.tags[0]}>")[0]
        steps = sum(1 for line in inside.splitlines() if line.strip())
        if steps < self.min_steps:
            return steps / self.min_steps
        return 1.0 if self.max_steps is None or steps <= self.max_steps else self.max_steps / steps


def _once(text: str, tag: str) -> bool:
    opening, closing = f"<{tag}>", f"</{tag}>"
    return text.count(opening) == text.count(closing) == 1 and text.index(opening) < text.index(closing)


def _in_order(text: str, tags: tuple[str, ...]) -> bool:
    """Whether tags that are each there once follow each other, with nothing but white space outside them."""
    rest = text.strip()
    for tag in tags:
        if not rest.startswith(f"<{tag}>"):
            return False
        rest = rest.partition(f"</{tag}>")[2].lstrip()
    return not rest
