"""A plain function as a reward."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Set
from typing import Any

from lightrl.parts.reward import RowReward, RowScore
from lightrl.parts.trl_reward import TRLReward, is_of_trl
from lightrl.prompt import Prompt
from lightrl.workers.calls import describe

WHERE = "Is it in the working folder, or its folder on PYTHONPATH?"
"""The question that a module raises which is not found."""


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
        self._function = _imported(path)
        self.accepts = accepted_names(self._function)

    @classmethod
    def of(cls, function: Callable[..., Any], weight: float = 1.0, **kwargs: Any) -> Function:
        """A function itself, as a script has it; it is called in the training process, where nothing can stop it.

        Args:
            function: as if it were named by a path.
            weight: the factor in the sum of rewards; 0 scores and logs without training on it.
            **kwargs: the arguments of `Reward`.

        Raises:
            ValueError: it is async.
        """
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
        self._function = _imported(self.path)


def accepted_names(function: Callable[..., object]) -> dict[str, bool] | None:
    """The arguments a function takes by name, each with whether it must be given; None if it takes any."""
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return {p.name: p.default is p.empty for p in parameters if p.name != "self" and p.kind is not p.VAR_POSITIONAL}


def _imported(path: str) -> Callable[..., RowScore]:
    module_name, _, name = path.rpartition(".")
    if not module_name:
        raise ValueError(f"a reward function is named by its import path, package.module.function; got {path!r}")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        own = module_name.startswith(f"{error.name}.") or error.name == module_name
        where = WHERE if own else f"{module_name} imports it, and it is not installed in this environment"
        raise ValueError(f"the reward function {path!r} cannot be imported: {error}. {where}") from error
    except Exception as error:
        raise ValueError(f"the reward function {path!r} cannot be imported: {describe(error)}") from error
    function: Callable[..., RowScore] | None = getattr(module, name, None)
    if not callable(function):
        known = sorted(n for n, v in vars(module).items() if inspect.isfunction(v) and not n.startswith("_"))
        file = getattr(module, "__file__", None) or "built in"
        raise ValueError(f"module {module_name!r} ({file}) has no function {name!r}; it has: {', '.join(known) or 'none'}")
    return _checked(function, path)


def _checked(function: Callable[..., Any], path: str) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(function):
        raise ValueError(f"the reward function {path!r} is async: write a subclass of lightrl.AsyncReward with it as `score`")
    return TRLReward(function) if is_of_trl(function) else function
