"""Rewards that need no package: an exact match, and a plain function, which may have the form of TRL."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Set
from typing import Any

from lightrl.import_path import imported
from lightrl.ops.thoughts import without_thoughts
from lightrl.parts.reward import RowReward, RowScore
from lightrl.prompt import Prompt


class ExactMatch(RowReward):
    """1 if the completion without its thoughts, stripped of surrounding white space, is the answer, else 0."""

    runs = "inline"

    def score(self, prompt: Prompt, completion: str, *, answer: object) -> float:  # type: ignore[override]
        if answer is None:
            raise ValueError(f"prompt {prompt.id!r} has no answer to compare with")
        return float(without_thoughts(completion).strip() == str(answer).strip())

    def answer_in(self, completion: str) -> str | None:
        """The text that is compared; None if nothing is left."""
        return without_thoughts(completion).strip() or None


class Function(RowReward):
    """A plain Python function as a reward.

    The function declares by name what it wants of `prompt`, `completion`, `answer` and the data set's columns, and
    returns a number, a list with one number per response token, or None. One that takes `completions` has TRL's form: it is given lists of
    one element, and returns a list of one.
    """

    def __init__(self, path: str, weight: float = 1.0, **kwargs: Any) -> None:
        """
        Args:
            path: where to import it from, `package.module.function`.
            weight: the factor in the sum of rewards; 0 scores and logs without training on it.
            **kwargs: the arguments of `RowReward`.

        Raises:
            ValueError: there is no such function, or the path is not one.
        """
        super().__init__(weight, **kwargs)
        self.path = path
        self._function = _function_at(path)
        self.accepts = accepted_names(self._function)

    @classmethod
    def of(cls, function: Callable[..., Any], weight: float = 1.0, **kwargs: Any) -> Function:
        """A function itself, not async (ValueError), as a script has it; called in the training process, where nothing can stop it."""
        reward = cls.__new__(cls)
        RowReward.__init__(reward, weight, runs="inline", **kwargs)
        reward.path = f"{function.__module__}.{getattr(function, '__qualname__', type(function).__name__)}"
        reward._function = _checked(function, reward.path)
        reward.accepts = accepted_names(reward._function)
        return reward

    def check(self, columns: Set[str]) -> None:
        """See `Reward.check`; a function that takes any column may name some that it must have."""
        taken = inspect.signature(self._function).parameters.values()
        needed = {p.name for p in taken if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
        missing = sorted(needed - columns - {"prompt", "completion", "answer"}) if self.accepts is None else []
        if missing:
            raise ValueError(
                f"the reward function {self.path!r} wants {', '.join(missing)}, which no column of every prompt is called. Columns: "
                f"{', '.join(sorted(columns)) or 'none'}. Rename the argument, give it a default, or keep the column in the prompt source"
            )

    def score(self, prompt: Prompt, completion: str, **columns: object) -> RowScore:
        given: dict[str, object] = {"prompt": prompt, "completion": completion, **columns}
        if self.accepts is not None:
            given = {name: value for name, value in given.items() if name in self.accepts}
        return self._function(**given)

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "_function"}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._function = _function_at(self.path)


def accepted_names(function: Callable[..., object]) -> dict[str, bool] | None:
    """The arguments a function takes by name, each with whether it must be given; None if it takes any."""
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return {p.name: p.default is p.empty for p in parameters if p.name != "self" and p.kind is not p.VAR_POSITIONAL}


def _function_at(path: str) -> Callable[..., RowScore]:
    function = imported(path)
    if not callable(function):
        raise ValueError(f"{path!r} is {type(function).__name__}, and a reward is a function")
    return _checked(function, path)


def _checked(function: Callable[..., Any], path: str) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(function):
        raise ValueError(f"the reward function {path!r} is async: write a subclass of lightrl.AsyncReward with it as `score`")
    # no reward of lightrl's own form takes `completions`
    return TRLReward(function) if "completions" in inspect.signature(function).parameters else function


NOT_HERE = frozenset({"completion_ids", "prompt_ids", "trainer_state", "log_extra", "log_metric", "environments"})
"""Arguments that TRL gives to such a function beside the columns, and nobody does here."""


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
        """The score of one completion; a TypeError if the function did not return a list of one number."""
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
