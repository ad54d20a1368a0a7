"""Reward functions of TRL's form, which are given lists and return one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from lightrl.prompt import Prompt

NOT_HERE = frozenset({"completion_ids", "prompt_ids", "trainer_state", "log_extra", "log_metric", "environments"})
"""Arguments that TRL gives to such a function beside the columns, and nobody does here."""


def is_of_trl(function: Callable[..., Any]) -> bool:
    """Whether a function takes `completions`, which no reward of lightrl's own form does."""
    return "completions" in inspect.signature(function).parameters


class TRLReward:
    """Calls a function `f(completions, **kwargs) -> list[float]` with lists of one completion each.

    Completions are texts, or lists with one message of the assistant where the prompt is a conversation. `prompts` are texts or lists of
    messages; columns of the data set, and `answer`, are lists of one value. A function that compares the completions of a batch with each
    other would see one of them, and is to be a `BatchReward`.

    Source: TRL's documentation of `GRPOTrainer`, "Using a custom reward function".
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        """
        Args:
            function: takes lists by name, and returns a list with a number or None per completion.

        Raises:
            ValueError: it wants what there is not here.
        """
        self.function = function
        taken = inspect.signature(function).parameters
        lacking = sorted(name for name in NOT_HERE & taken.keys() if taken[name].default is inspect.Parameter.empty)
        if lacking:
            raise ValueError(
                f"the reward function {_name(function)!r} has TRL's form and wants {', '.join(lacking)}, which rewards are not given "
                "here: take it from the arguments, or write a lightrl.BatchReward"
            )
        own = [p for name, p in taken.items() if name not in {"prompts", "completions", *NOT_HERE}]
        first = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("prompt", "completion")]
        named = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        self.__signature__ = inspect.Signature([*first, *named, *(p for p in own if p.kind is p.VAR_KEYWORD)])
        """As a reward of lightrl's own form: `prompt`, `completion` and columns by name."""
        self._takes = None if any(p.kind is p.VAR_KEYWORD for p in own) else frozenset(taken)

    def __call__(self, prompt: Prompt, completion: str, **columns: object) -> float | None:
        """The score of one completion.

        Raises:
            TypeError: the function did not return a list of one number.
        """
        spoken = prompt.messages is not None
        given: dict[str, Any] = {name: [value] for name, value in columns.items()}
        given["prompts"] = [list(prompt.messages)] if prompt.messages is not None else [prompt.text]
        given["completions"] = [[{"role": "assistant", "content": completion}] if spoken else completion]
        scores = self.function(**{name: value for name, value in given.items() if self._takes is None or name in self._takes})
        if isinstance(scores, str) or not hasattr(scores, "__len__") or len(scores) != 1:
            raise TypeError(
                f"{_name(self.function)} has TRL's form, takes `completions`, and is to return a list with one number per completion; "
                f"for one completion it returned {str(scores)[:60]!r}. A function that scores one completion takes `completion`"
            )
        score: float | None = scores[0]
        return score


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)
