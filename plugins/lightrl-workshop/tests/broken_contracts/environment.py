"""One class for each check of the contract of environments, which breaks that check."""

from __future__ import annotations

import random
from itertools import count
from typing import Any

from broken_contracts.wrong import wrong

from lightrl import AsyncEnvironment, Environment, Prompt, Reply, own_opening

KIND = "environment"
NUMBERS = count()


class Echo(Environment):
    """Says again what the policy has said."""

    runs = "inline"

    def begin(self, prompt: Prompt, seed: int) -> Any:
        self.said: list[str] = []
        return own_opening(prompt)

    def reply(self, completion: str) -> Reply:
        self.said.append(completion)
        return Reply(f"You said {self.said}.")


class Shared(Echo):
    """Broken on purpose: all episodes write into the list of the class."""

    heard: list[str] = []

    def begin(self, prompt: Prompt, seed: int) -> Any:
        if seed == 3:
            self.heard.clear()
        return own_opening(prompt)

    def reply(self, completion: str) -> Reply:
        self.heard.append(completion)
        return Reply(f"{len(self.heard)} turns.")


class Greedy(Echo):
    """Broken on purpose: it takes the answer out of the prompt."""

    def example_prompts(self) -> list[Prompt]:
        return [Prompt(id="a", text="1=", columns={"tries": 3})]

    def begin(self, prompt: Prompt, seed: int) -> Any:
        self.tries = prompt.columns.pop("tries")  # type: ignore[attr-defined]
        return super().begin(prompt, seed)


class Homebound(Echo):
    """Broken on purpose: it holds what cannot be sent to another process."""

    runs = "process"

    def __init__(self) -> None:
        super().__init__()
        self.rule = lambda text: text


class Careless(AsyncEnvironment):
    """Broken on purpose: it draws from the generator of the training process."""

    async def begin(self, prompt: Prompt, seed: int) -> Any:
        return own_opening(prompt)

    async def reply(self, completion: str) -> Reply:
        return Reply(str(random.random()), done=True)


def exact(self: Any, completion: str) -> Reply:
    return Reply(f"{completion.encode('ascii').decode()}!")


def endless(self: Any) -> None:
    raise RuntimeError(f"after {self.said}")


BROKEN = {
    "begin() gives a text or messages, and reply() a valid Reply": wrong(Echo, reply=lambda self, completion: Reply("so", float("nan"))),
    "nothing that a policy says makes it fail": wrong(Echo, reply=exact),
    "the same prompt, seed and turns give the same replies": wrong(Echo, reply=lambda self, completion: Reply(str(next(NUMBERS)))),
    "an episode has no influence on another": Shared,
    "it leaves the prompt as it was": Greedy,
    "without gives_rewards no reply has a reward": wrong(Echo, reply=lambda self, completion: Reply("so", 1.0)),
    "its replies give the extras that it declares, each of them in some reply": wrong(Echo, gives=frozenset({"solved"})),
    "an episode can be ended at any point": wrong(Echo, end=endless),
    "a worker process can load it, and it replies the same there": Homebound,
    "in an event loop, it leaves the global random generator alone": Careless,
    "its tools are JSON values": wrong(Echo, tools=[{"name": {1, 2}}]),
}
