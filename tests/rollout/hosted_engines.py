"""Engines for worker processes, which do what files in a folder say."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from lightrl import Environment, Prompt, Reply, Result, TransformersEngine, own_opening


class Obedient(TransformersEngine):
    """Dies, hangs or raises, once for each file `die...`, `hang...` and `fail...`, after it has given some results."""

    def __init__(self, folder: str, slice_rows: int = 4, max_new_tokens: int = 12) -> None:
        super().__init__(max_new_tokens, slice_rows=slice_rows)
        self.folder = folder
        self.calls = 0

    def start(self) -> None:
        (Path(self.folder) / f"started {os.getpid()}").touch()

    def close(self) -> None:
        (Path(self.folder) / f"closed {os.getpid()}").touch()

    def results(self) -> list[Result]:
        self.calls += 1
        if self.calls > 1:
            self.obey()
        return super().results()

    def obey(self) -> None:
        if self.claimed("die"):
            os.kill(os.getpid(), signal.SIGKILL)
        if self.claimed("fail"):
            raise ValueError("the logits are odd")
        if self.claimed("hang"):
            while True:
                time.sleep(0.01)

    def claimed(self, name: str) -> bool:
        for file in Path(self.folder).glob(f"{name}*"):
            try:
                file.rename(file.with_name(f"obeyed {file.name} {os.getpid()}"))
            except FileNotFoundError:
                # another process was quicker
                continue
            return True
        return False


class Counting(Environment):
    """Says the length of the last turn, three times."""

    runs = "inline"
    gives_rewards = True
    gives = frozenset({"turns"})
    gives_per_turn = frozenset({"length"})

    def begin(self, prompt: Prompt, seed: int) -> str:
        self.turn = 0
        return str(own_opening(prompt))

    def reply(self, completion: str) -> Reply:
        self.turn += 1
        told = {"turns": self.turn, "length": len(completion)}
        return Reply(f"{len(completion)}=", reward=1.0 / (1 + len(completion)), done=self.turn == 3, extras=told)
