"""A game as a task set of verifiers, as an example: it imports nothing of lightrl. Its id is `signs`, with this folder on the path."""

from __future__ import annotations

import random

import verifiers.v1 as vf

__all__ = ["Signs", "SignsEnv"]

SIGNS = ("red", "blue", "green", "white", "black", "pink")
"""The sign of a room says which of its doors leads on: that of the same place in this list, from 1."""
ROOMS = 4


class SignsConfig(vf.TasksetConfig):
    """How many tasks there are."""

    size: int = 22_000


class SignsData(vf.TaskData):
    """The signs of the four rooms."""

    signs: list[str]


class SignsTask(vf.Task[SignsData, vf.State, vf.TaskConfig]):
    """Walk through four rooms."""

    @vf.reward(weight=1.0)
    async def right(self, trace: vf.Trace) -> float:
        """The share of rooms in which the right door was named."""
        said = [message.content for message in trace.messages if message.role == "assistant"]
        return sum(door == str(1 + SIGNS.index(sign)) for door, sign in zip(said, self.data.signs, strict=False)) / ROOMS


class SignsEnvConfig(vf.EnvConfig):
    """One agent walks."""

    walker: vf.AgentConfig = vf.AgentConfig()


class SignsEnv(vf.Env[SignsEnvConfig]):
    """Shows one sign after the other."""

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        """Ask for a door in each room."""
        async with agents.walker.interaction(task) as walk:
            await walk.turn()
            for sign in task.data.signs[1:]:
                await walk.turn(f"{sign}:")


class Signs(vf.Taskset[SignsTask, SignsConfig]):
    """As many walks as the config says, the same for each number."""

    def load(self) -> list[SignsTask]:
        """Draw the signs."""
        walks = [random.Random(number).choices(SIGNS, k=ROOMS) for number in range(self.config.size)]
        return [SignsTask(SignsData(prompt=f"{signs[0]}:", signs=signs)) for signs in walks]
