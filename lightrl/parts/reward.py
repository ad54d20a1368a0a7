"""Rewards: how good is a completion?"""

from __future__ import annotations

import importlib
import inspect
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from lightrl.parts.base import Part
from lightrl.types import Prompt, Rollout

RowScore = float | int | bool | Sequence[float] | None
"""What a row scores: a number for the row, one number per response token, or None to abstain."""


class Reward(Part):
    """Scores completions; subclass `RowReward` or `BatchReward`."""

    def __init__(self, weight: float = 1.0) -> None:
        """
        Args:
            weight: the factor in the sum of rewards; 0 scores and logs without training on it.
        """
        self.weight = weight


class RowReward(Reward):
    """Scores one completion at a time."""

    @abstractmethod
    def score(self, prompt: Prompt, completion: str, **columns: Any) -> RowScore:
        """How good this completion is.

        Args:
            prompt: what was asked.
            completion: the decoded response, without the closing special token.
            **columns: the prompt's `answer` and its other columns, those that the signature names.

        Returns:
            A finite number, a list with one per response token, or None to abstain.
        """


class BatchReward(Reward):
    """Scores a whole rollout at once, for example with a model."""

    @abstractmethod
    def score(self, rollout: Rollout) -> Tensor:
        """`[N]`, or `[N, L]` with NaN where no step ends; float32. NaN in `[N]` means failed."""


class Function(RowReward):
    """A plain Python function as a reward.

    The function declares by name what it wants of `prompt`, `completion`, `answer` and the data set's columns, and
    returns a number, a list with one number per response token, or None.
    """

    def __init__(self, path: str, weight: float = 1.0) -> None:
        """
        Args:
            path: where to import it from, `package.module.function`.
            weight: the factor in the sum of rewards; 0 scores and logs without training on it.

        Raises:
            ValueError: there is no such function, or the path is not one.
        """
        super().__init__(weight)
        self.path = path
        self._function = _imported(path)
        self.accepts = accepted_names(self._function)

    def score(self, prompt: Prompt, completion: str, **columns: Any) -> RowScore:
        given = {"prompt": prompt, "completion": completion, **columns}
        if self.accepts is not None:
            given = {name: value for name, value in given.items() if name in self.accepts}
        return self._function(**given)  # type: ignore[no-any-return]


def accepted_names(function: Callable[..., Any]) -> dict[str, bool] | None:
    """The arguments a function takes by name, each with whether it must be given; None if it takes any."""
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return {p.name: p.default is p.empty for p in parameters if p.name != "self" and p.kind is not p.VAR_POSITIONAL}


def _imported(path: str) -> Callable[..., Any]:
    module_name, _, name = path.rpartition(".")
    if not module_name:
        raise ValueError(f"a reward function is named by its import path, package.module.function; got {path!r}")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ValueError(f"the reward function {path!r} cannot be imported: {error}. Is its folder on PYTHONPATH?") from error
    function = getattr(module, name, None)
    if not callable(function):
        known = sorted(n for n, v in vars(module).items() if inspect.isfunction(v) and not n.startswith("_"))
        raise ValueError(f"module {module_name!r} has no function {name!r}; it has: {', '.join(known) or 'none'}")
    return function  # type: ignore[no-any-return]
