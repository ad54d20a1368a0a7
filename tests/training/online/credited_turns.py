"""A package of a researcher: an environment that says how good each turn was, and an advantage that reads it. As a script: its step.

python credited_turns.py RANKS FILE
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from lightrl_workshop import gradient_of_step
from torch import Tensor

from lightrl import (
    Advantages,
    Environment,
    Experience,
    GroupCentered,
    GroupRelative,
    GroupSampler,
    PerToken,
    Prompt,
    Reply,
    TinyPolicy,
    hookimpl,
)


class Larger(Environment):
    """Three turns; a turn is as good as the share of its characters that are digits above four."""

    runs = "inline"
    gives = frozenset({"good_turns"})
    gives_per_turn = frozenset({"credit"})

    def begin(self, prompt: Prompt, seed: int) -> str:
        self.turn, self.good = 0, 0
        return f"{seed % 1000}="

    def reply(self, completion: str) -> Reply:
        self.turn += 1
        credit = sum(character in "56789" for character in completion) / max(len(completion), 1)
        self.good += credit > 0.25
        # of the second turn nothing is said
        told = {"good_turns": self.good} | ({} if self.turn == 2 else {"credit": credit})
        return Reply(f"{len(completion)}=", done=self.turn == 3, extras=told)


class CreditedTurns(GroupCentered):
    """The advantage of the group, with the credit of each turn, in episodes with good turns."""

    needs = frozenset({PerToken("credit"), "good_turns"})

    def compute(self, experience: Experience) -> Advantages:
        found = super().compute(experience).advantages
        weight = experience.extra("credit") * (1 + experience.extra("good_turns"))[:, None]
        return Advantages(torch.where(found != 0, found * weight, 0.0))


class Credited(GroupRelative):
    """Learns from turns by the credit that an environment gives them."""

    advantage = CreditedTurns()
    sampler = GroupSampler(group_size=4)


@hookimpl
def lightrl_environments() -> list[type[Any]]:
    return [Larger]


@hookimpl
def lightrl_advantages() -> list[type[Any]]:
    return [CreditedTurns]


@hookimpl
def lightrl_algorithms() -> list[type[Any]]:
    return [Credited]


def gradient(ranks: int) -> Tensor:
    """Of one step on episodes."""
    policy = TinyPolicy(hidden=16, layers=1, heads=2, dtype="float64")
    return gradient_of_step(Credited(), None, policy, budget=64, ranks=ranks, environment=Larger())


if __name__ == "__main__":
    torch.set_num_threads(1)
    found = gradient(int(sys.argv[1]))
    if torch.distributed.get_rank() == 0:
        torch.save(found, sys.argv[2])
