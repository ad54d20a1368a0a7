"""Classes of TRL's form as environments: `reset`, public methods as tools, and `get_reward`."""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, SupportsFloat

from lightrl_code import ToolEnvironment
from lightrl_code.tools.tool_function import ToolFunction

from lightrl import Prompt, Reply, imported
from lightrl_guests.openings import Said, continued, in_chat
from lightrl_guests.trl_protocol import (
    OF_REWARD,
    RESET,
    REWARD,
    asked_by,
    chosen,
    environment_class,
    gives_reward,
    refuse_arguments,
    tool_methods,
)

Messages = list[dict[str, str]]
SEED = ("seed",)
"""`reset` is given the seed of the episode if it asks for it by name."""


class TRLEnvironment(ToolEnvironment):
    """An environment class of TRL (`GRPOTrainer(environment_factory=...)`), unchanged: its public methods are tools.

    Each episode has an instance of its own. `reset` is called with the columns of the data, and its text is added to the last message of
    the prompt. A turn without a call ends the episode, and so does `max_turns`; then `get_reward` says the reward. An episode that
    meets a limit on tokens is not scored by it. Calls and their results are as in `ToolEnvironment`.

    Source: TRL 1.16, `trl.GRPOTrainer`, argument `environment_factory`.
    """

    awaits = True

    def __init__(
        self,
        path: str,
        arguments: dict[str, Any] | None = None,
        reward: str | None = None,
        tools: Sequence[str] = (),
        chat: bool = True,
        **kwargs: Any,
    ) -> None:
        """
        Args:
            path: import path of the class, `my_module.WordGame`.
            arguments: what its constructor gets, by name.
            reward: import path of a reward function of TRL that reads `environments`, in place of `get_reward`; it is called for each
                episode by itself.
            tools: import paths of functions that the policy may call as well, TRL's argument `tools`.
            chat: a prompt without a text, as those of `EpisodeSeeds`, becomes a message of the user, as in TRL; false leaves it a text,
                for policies without a chat template.
            **kwargs: the arguments of `ToolEnvironment`.

        Raises:
            ValueError: an argument outside its range, a path that leads to no class of TRL's form, or a class that cannot be built with
                these arguments.
        """
        self.path, self.arguments, self.reward, self.chat = path, dict(arguments or {}), reward, chat
        owner = environment_class(path)
        refuse_arguments(path, owner, self.arguments)
        self.gives_rewards = reward is not None or gives_reward(owner)
        super().__init__(tools=[*tools, path], **kwargs)
        if reward is not None and not callable(imported(reward)):
            raise ValueError(f"the reward {reward!r} is {type(imported(reward)).__name__}, which cannot be called: name a function")
        self._guest: object = None
        self._runner: asyncio.Runner | None = None
        self._given: dict[str, object] = {}
        self._said: Messages = []
        self._turns = 0

    def check(self, columns: frozenset[str]) -> None:
        super().check(columns)
        has = (*OF_REWARD, "answer", *sorted(columns))
        missing = [name for name, required in self._asked_by_reward().items() if required and name not in has]
        if missing:
            raise ValueError(f"the reward {self.reward!r} asks for {', '.join(missing)}, which no episode has; there are {', '.join(has)}")

    def begin(self, prompt: Prompt, seed: int) -> Said:
        prompt = in_chat(prompt) if self.chat else prompt
        row = prompt.text if prompt.messages is None else list(prompt.messages)
        self._given = {**prompt.columns, "answer": prompt.answer, "prompt": row}
        opening = super().begin(prompt, seed)
        reset = _method(self._guest, RESET)
        # a class may change what it is given, and a reward function reads the data as it was
        observation = self._awaited(reset(**copy.deepcopy(chosen(reset, {"seed": seed, **self._given}, SEED))))
        if observation is None:
            return opening
        if not isinstance(observation, str):
            raise TypeError(f"reset() of {self.path} returned {type(observation).__name__} {observation!r:.60}, expected a text or None")
        return continued(opening, observation)

    def reply(self, completion: str) -> Reply:
        reply = super().reply(completion)
        self._turns += 1
        said = [{"role": "tool", "content": reply.said}] if isinstance(reply.said, str) else reply.said
        self._said += [{"role": "assistant", "content": completion}, *(() if reply.done else said)]
        over = self.gives_rewards and (reply.done or self._turns >= self.max_turns)
        return reply._replace(reward=self._reward()) if over else reply

    def end(self) -> None:
        """Close the instance, if it can be closed, and the loop of its async methods."""
        close = getattr(self._guest, "close", None)
        try:
            if callable(close):
                self._awaited(close())
        finally:
            self._close_loop()

    def _reward(self) -> float:
        if self.reward is None:
            value, who = self._awaited(_method(self._guest, REWARD)()), f"get_reward() of {self.path}"
        else:
            columns = {name: [value] for name, value in copy.deepcopy(self._given).items()}
            prompts = columns.pop("prompt")
            given = {**columns, "prompts": prompts, "completions": [self._said], "environments": [self._guest]}
            function, who = imported(self.reward), f"the reward {self.reward}"
            values = self._awaited(function(**chosen(function, given)))
            if not isinstance(values, (list, tuple)) or len(values) != 1:
                raise TypeError(f"{who} returned {type(values).__name__} {values!r:.60} for one episode, expected a list with one number")
            (value,) = values
        if not isinstance(value, SupportsFloat):
            raise TypeError(f"{who} returned {type(value).__name__} {value!r:.60}, expected a finite number")
        return float(value)

    def _methods(self, path: str) -> tuple[str, ...] | None:
        return tool_methods(environment_class(path)) if path == self.path else None

    def _asked(self, owner: type) -> Mapping[str, bool]:
        return {**asked_by(_method(owner, RESET)), "answer": False} if owner is imported(self.path) else super()._asked(owner)

    def _asked_by_reward(self) -> dict[str, bool]:
        return {} if self.reward is None else asked_by(imported(self.reward))

    def _made(self, owner: type, given: Mapping[str, object]) -> object:
        if owner is not imported(self.path):
            return super()._made(owner, given)
        self._guest = owner(**copy.deepcopy(self.arguments))
        return self._guest

    def _bound(self, tool: ToolFunction) -> Callable[..., object]:
        return partial(self._called, super()._bound(tool))

    def _called(self, function: Callable[..., object], **arguments: object) -> object:
        return self._awaited(function(**arguments))

    def _awaited(self, value: object) -> object:
        """The value, or what it comes to in the event loop of this episode."""
        if not inspect.isawaitable(value):
            return value
        self._runner = self._runner or asyncio.Runner()
        try:
            return self._runner.run(_result(value))
        except Exception:
            raise
        except BaseException:
            # a time limit came in between: what was under way is not to go on in the next call
            self._close_loop()
            raise

    def _close_loop(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.close()


async def _result(value: Awaitable[object]) -> object:
    return await value


def _method(owner: object, name: str) -> Callable[..., object]:
    found: Callable[..., object] = getattr(owner, name)
    return found
