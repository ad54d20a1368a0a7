"""A task set of verifiers with planted failures, in its own classes; `fault` of its config chooses one."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable
from typing import Any

import verifiers.v1 as vf

__all__ = ["Echo", "EchoEnv"]


class EchoConfig(vf.TasksetConfig):
    fault: str = ""
    size: int = 4


class EchoData(vf.TaskData):
    word: str
    fault: str


class EchoTask(vf.Task[EchoData, vf.State, vf.TaskConfig]):
    async def setup(self, trace: vf.Trace) -> None:
        if self.data.fault == "setup raises":
            raise RuntimeError("no room")

    async def finalize(self, trace: vf.Trace) -> None:
        if self.data.fault == "finalize raises":
            raise RuntimeError("cannot tidy up")

    @vf.reward(weight=0.5)
    async def right(self, trace: vf.Trace) -> float:
        fault = self.data.fault
        if fault == "reward raises":
            raise RuntimeError("no answer key")
        if fault == "reward late":
            time.sleep(5)
        if fault == "dies":
            os._exit(1)
        values = {"reward NaN": float("nan"), "reward infinite": float("inf"), "reward a text": "0.5 or so", "reward None": None}
        if fault in values:
            return values[fault]
        reply = trace.last_reply.strip()
        return float(reply in self.data.word if fault == "graded" else reply == self.data.word)

    def hooks(self, attr: str) -> list[Callable[..., Any]]:
        return [] if (attr, self.data.fault) == ("reward", "no reward") else super().hooks(attr)

    @vf.metric
    async def length(self, trace: vf.Trace) -> float:
        if self.data.fault == "metric raises":
            raise RuntimeError("cannot count")
        return float(len(trace.last_reply))


class EchoEnvConfig(vf.EnvConfig):
    player: vf.AgentConfig = vf.AgentConfig()


class EchoEnv(vf.Env[EchoEnvConfig]):
    """Asks for a word and then for another one, which it draws."""

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        fault = task.data.fault
        if fault == "run raises":
            raise RuntimeError("the door is stuck")
        if fault == "no agent":
            return
        async with agents.player.interaction(task) as talk:
            await talk.turn()
            if fault == "turn raises":
                raise RuntimeError("the line is dead")
            if fault == "turn late":
                await asyncio.sleep(5)
            if fault == "rewrites":
                talk.trace.nodes[1].message = vf.UserMessage(content="Say something else.")
            await talk.turn(f"again {random.randint(1, 10**6)}")
        if fault == "plays twice":
            await agents.player.run(task)


class Echo(vf.Taskset[EchoTask, EchoConfig]):
    def load(self) -> list[EchoTask]:
        words = [f"word{number}" for number in range(self.config.size)]
        return [EchoTask(EchoData(prompt=f"Say {word}.", system_prompt="Be brief.", word=word, fault=self.config.fault)) for word in words]
