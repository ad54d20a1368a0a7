"""An environment of two turns, for the commands that play or replay episodes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

GAME = """
from lightrl.parts.environment import Environment, Reply

class Digits(Environment):
    \"\"\"Two turns; the second may fail.\"\"\"

    runs = "inline"
    gives_rewards = True

    def begin(self, prompt, seed):
        self.turn = 0
        return f"{prompt.text or seed % 10}?"

    def reply(self, completion):
        self.turn += 1
        if self.turn == 2 and completion[-1:] in tuple("789"):
            raise ArithmeticError("too high")
        return Reply(">", float(completion[-1:] in tuple("01234")), self.turn == 2)
"""


@pytest.fixture
def episodes(write: Callable[..., Path], config: dict[str, Any]) -> dict[str, Any]:
    """The config of a run that plays the game, which its environment rewards."""
    write("two_turns.py", GAME)
    config["model"]["environment"] = {"class_path": "two_turns.Digits", "init_args": {"max_error_rate": 1.0}}
    config["model"]["engine"] = {"max_new_tokens": 30, "stop": list("0123456789")}
    config["data"] = {"train": {"class_path": "EpisodeSeeds", "init_args": {"size": 20}}, "validation_size": 4}
    return config
