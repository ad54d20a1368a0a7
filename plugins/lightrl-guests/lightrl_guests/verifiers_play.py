"""One episode of an environment of `verifiers`, which asks for turns where it would ask a model."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    import verifiers.v1 as vf
    from aiohttp import web

Message = dict[str, str]
T = TypeVar("T")
HARNESS = "lightrl_guests_harness"
HERE = "127.0.0.1"


class VerifiersError(Exception):
    """An environment of verifiers has failed, or does what a row of tokens cannot show."""


class Loaded(NamedTuple):
    """An environment's config, and its tasks so far."""

    config: vf.EnvConfig
    tasks: list[vf.Task]
    others: Iterator[vf.Task]
    bounded: bool

    def task(self, index: int) -> vf.Task:
        """The task of a number; an IndexError if there is none."""
        self.tasks.extend(itertools.islice(self.others, max(index + 1 - len(self.tasks), 0)))
        return self.tasks[index]


def loaded(taskset: str, config: Mapping[str, Any], max_turns: int) -> Loaded:
    """The environment of a task set, loaded once in a process; a ValueError if it cannot be played."""
    try:
        return _loaded(taskset, json.dumps(config, sort_keys=True), max_turns)
    except (ImportError, AttributeError, TypeError) as error:
        raise ValueError(f"the task set {taskset!r} cannot be loaded: {error}") from error


@cache
def _loaded(taskset: str, config: str, max_turns: int) -> Loaded:
    from verifiers.v1.configs.agent import agent_config_fields
    from verifiers.v1.utils.loaders import load_environment, resolve_env_config

    given = json.loads(config)
    given["taskset"] = {**given.get("taskset", {}), "id": taskset}
    agents = list(agent_config_fields(resolve_env_config(dict(given))))
    if len(agents) != 1:
        raise ValueError(f"the environment of {taskset!r} has the agents {', '.join(agents)}, and a policy can play one that is alone")
    (agent,) = agents
    own = {"harness": {"id": HARNESS}, "runtime": {"type": "subprocess"}, "max_turns": max_turns}
    given[agent] = {**given.get(agent, {}), **own}
    resolved = resolve_env_config(given)
    environment = load_environment(resolved)
    tasks = environment.taskset
    if tasks.toolsets(tasks.config) or type(tasks).task_type().toolsets(tasks.config.task):
        raise ValueError(
            f"the task set {taskset!r} has tool servers, which cannot be played: write it as a class with tools for TRLEnvironment"
        )
    return Loaded(resolved, [], iter(tasks), tasks.bounded)


class Play:
    """An episode in an event loop of its own, which stands still between the turns."""

    def __init__(self, config: vf.EnvConfig, task: vf.Task) -> None:
        """`config`: of the environment; `task`: the one to play."""
        self._config, self._task = config, task
        self._runner = asyncio.Runner()
        self._said: list[Message] = []
        self._asked: asyncio.Queue[tuple[list[Message], asyncio.Future[str]]] = asyncio.Queue()
        self._answer: asyncio.Future[str] | None = None
        self._episode: asyncio.Task[vf.Episode] | None = None

    def begin(self) -> Sequence[Message] | None:
        """The messages that the policy reads first; None if the episode is over before."""
        return self._run(self._begun())

    def reply(self, text: str) -> Sequence[Message] | None:
        """The messages after a turn of the policy; None if the episode is over."""
        return self._run(self._replied(text))

    def trace(self) -> vf.Trace:
        """The record of an episode that is over; a VerifiersError if it has failed or has no reward."""
        if self._episode is None:
            raise VerifiersError("the episode has not begun")
        episode = self._episode.result()
        errors = [*episode.errors, *(error for trace in episode.traces for error in trace.errors)]
        if errors or not episode.ok:
            said = dict.fromkeys(f"{error.type}: {error.message}" for error in errors)
            raise VerifiersError("; ".join(said) or "verifiers says that the episode is not ok, and names no error")
        if len(episode.traces) != 1:
            raise VerifiersError(f"the environment has run its agent {len(episode.traces)} times in one episode, and a row holds one run")
        (trace,) = episode.traces
        if missing := [name for name, reward in trace.rewards.items() if reward is None]:
            raise VerifiersError(f"the task was not scored: there is no {', '.join(missing)}")
        if not trace.rewards:
            raise VerifiersError(f"{type(self._task).__name__} has no reward: write a method of it with @vf.reward")
        return trace

    def close(self) -> None:
        """End the loop, and what is under way in it."""
        self._runner.close()

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        try:
            return self._runner.run(call)
        except Exception:
            raise
        except BaseException:
            # a time limit came in between: what was under way is not to go on in the next call
            self.close()
            raise

    async def _begun(self) -> Sequence[Message] | None:
        from aiohttp import web

        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._request)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, HERE, 0).start()
        self._episode = asyncio.create_task(self._played(f"http://{HERE}:{runner.addresses[0][1]}/v1"))
        return await self._next()

    async def _played(self, url: str) -> vf.Episode:
        from verifiers.v1 import EvalClientConfig, ModelContext
        from verifiers.v1.utils.loaders import load_environment

        environment = load_environment(self._config)
        async with environment.serving():
            return await environment.run_episode(self._task, ModelContext("policy", EvalClientConfig(base_url=url)))

    async def _replied(self, text: str) -> Sequence[Message] | None:
        if self._answer is None or self._answer.done():
            raise VerifiersError("nothing has been asked")
        self._said.append({"role": "assistant", "content": text})
        self._answer.set_result(text)
        return await self._next()

    async def _next(self) -> Sequence[Message] | None:
        if self._episode is None:
            raise VerifiersError("the episode has not begun")
        asked = asyncio.create_task(self._asked.get())
        await asyncio.wait({asked, self._episode}, return_when=asyncio.FIRST_COMPLETED)
        if not asked.done():
            asked.cancel()
            return None
        messages, self._answer = asked.result()
        before = len(self._said)
        if messages[:before] != self._said:
            raise VerifiersError(
                f"the environment has rewritten what was said: the policy read {self._said!r:.300}, now it is {messages!r:.300}"
            )
        self._said = messages
        return messages[before:]

    async def _request(self, request: web.Request) -> web.Response:
        from aiohttp import web

        body = await request.json()
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        await self._asked.put(([_text(message) for message in body["messages"]], answer))
        message = {"role": "assistant", "content": await answer}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        return web.json_response(
            {"id": "turn", "object": "chat.completion", "created": 0, "model": "policy", "choices": [choice], "usage": usage}
        )


def _text(message: Mapping[str, Any]) -> Message:
    # verifiers has None for an empty turn
    content = message.get("content") or ""
    return {"role": message["role"], "content": content if isinstance(content, str) else json.dumps(content)}
