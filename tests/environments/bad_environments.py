"""Environments that misbehave as their prompts say; the module needs no torch, and neither do the workers that load it."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from lightrl.parts.environment import Environment, Reply, Said
from lightrl.prompt import Prompt


class Counting(Environment):
    """Counts turns, draws numbers, and does what the prompt says when its turn has come."""

    def begin(self, prompt: Prompt, seed: int) -> Said:
        self.turn, self.fault, self.kept = 0, prompt.text, [seed]
        self.do("begin")
        return f"seed {seed}, drew {random.randrange(10**6)}"

    def reply(self, completion: str) -> Reply:
        self.turn += 1
        self.kept.append(len(completion))
        given = self.do(f"turn {self.turn}")
        if given is not None:
            return given  # type: ignore[no-any-return]
        return Reply(f"{self.kept} {random.randrange(10**6)}", reward=self.turn / 2, done=self.turn == 4, state={"kept": self.kept})

    def do(self, when: str) -> Any:
        fault, _, at = self.fault.partition(" at ")
        return getattr(self, fault)() if at == when else None

    def raises(self) -> None:
        raise ArithmeticError("not my day")

    def hangs(self) -> None:
        time.sleep(1e6)

    def dies(self) -> None:
        os._exit(7)

    def interrupts(self) -> None:
        raise KeyboardInterrupt

    def leaves(self) -> None:
        sys.exit("gone")

    def eats(self) -> None:
        self.kept = bytearray(400 << 20)

    def text(self) -> str:
        return "hello"

    def nan(self) -> Reply:
        return Reply("on", float("nan"))

    def huge(self) -> Reply:
        return Reply("x" * 10_000_000)

    def silent(self) -> Reply:
        return Reply()

    def reseeds(self) -> None:
        random.seed(1)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(1)

    def leaks(self) -> Reply:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
        return Reply(str(child.pid), state={"pid": child.pid})

    def where(self) -> Reply:
        return Reply(f"{'torch' in sys.modules} {os.getpid()}")


class Forgetful(Counting):
    """Not a function of what was said."""

    def reply(self, completion: str) -> Reply:
        return super().reply(completion)._replace(said=str(time.time_ns()))


class Ending(Environment):
    """Writes down that it was ended."""

    def __init__(self, path: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.path = path

    def begin(self, prompt: Prompt, seed: int) -> Said:
        self.breaks = prompt.text == "breaks"
        return "go"

    def reply(self, completion: str) -> Reply:
        return Reply("go")

    def end(self) -> None:
        if self.breaks:
            raise ArithmeticError("no end")
        with Path(self.path).open("a") as file:
            file.write("ended\n")


class CountingInline(Counting):
    """The same in the training process."""

    runs = "inline"
