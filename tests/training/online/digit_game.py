"""A game for policies that know characters: each turn should end with a small digit. It fails as its prompts say; needs no torch."""

from __future__ import annotations

import time

from lightrl.parts.environment import Environment, Reply, Said
from lightrl.prompt import Prompt


class DigitGame(Environment):
    """Two, three or four turns, as the seed says; a turn whose last character is below five earns 1."""

    gives_rewards = True

    def begin(self, prompt: Prompt, seed: int) -> Said:
        self.turn, self.turns, self.seed = 0, 2 + seed % 3, seed
        self.fault = str(prompt.columns.get("fault", ""))
        self.do("begin")
        return f"{seed % 1000}?"

    def reply(self, completion: str) -> Reply:
        self.turn += 1
        self.do(f"turn {self.turn}")
        earned = float("nan") if self.fault == f"nan at turn {self.turn}" else float(completion[-1:] in tuple("01234"))
        over = self.turn == self.turns and self.fault != "never ends"
        return Reply(f">{len(completion)}?", earned, over, {"turn": self.turn, "seed": self.seed}, {"answered": 1.0})

    def do(self, when: str) -> None:
        if self.fault == f"raises at {when}":
            raise ArithmeticError("not my day")
        if self.fault == f"hangs at {when}":
            time.sleep(1e6)


class InlineDigitGame(DigitGame):
    """The same in the training process."""

    runs = "inline"
