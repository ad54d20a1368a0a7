"""Classes in TRL's form: good ones, and one for each thing that can go wrong."""

from __future__ import annotations

import asyncio
import os
import random
import time
from typing import Any


class Shop:
    """Sells what the data says is in stock."""

    closed: list[str] = []

    def __init__(self, greeting: str = "Hello. ") -> None:
        self.greeting = greeting
        self.sold = 0

    def reset(self, stock: dict[str, int], prompt: Any, **kwargs: Any) -> str:
        self.stock, self.given = stock, kwargs
        return f"{self.greeting}There are: {', '.join(stock)}."

    def buy(self, item: str, count: int = 1) -> str:
        """Buy something.

        Args:
            item: What to buy.
            count: How many.
        """
        self.stock[item] -= count
        self.sold += count
        return f"{self.stock[item]} left"

    def ask(self) -> dict[str, int]:
        """Ask what is left."""
        return self.stock

    @classmethod
    def small(cls) -> Shop:
        """Not a tool in TRL, which takes functions."""
        return cls()

    def _count(self) -> int:
        return self.sold

    def get_reward(self) -> float:
        return 0.25 * self.sold


class Closing(Shop):
    """Says when it is closed."""

    def __init__(self, note: str) -> None:
        super().__init__()
        self.note = note

    def close(self) -> None:
        """Close the shop."""
        with open(self.note, "a") as file:  # noqa: PTH123
            file.write("closed\n")


class Dice:
    """Draws from the global generator, when it begins and when it is rolled."""

    def reset(self, **kwargs: Any) -> str:
        return f" {random.random()}"

    def roll(self) -> str:
        """Roll."""
        return str(random.random())


class Seeded(Dice):
    """Asks for the seed."""

    def reset(self, seed: int) -> str:
        return f" {seed}"


class Silent(Dice):
    """Has nothing to say at first."""

    def reset(self, **kwargs: Any) -> None:
        return None


class Later:
    """Is async throughout, with a lock that belongs to one event loop."""

    async def reset(self, **kwargs: Any) -> str:
        self.lock, self.calls = asyncio.Lock(), 0
        return " Later."

    async def wait(self, seconds: float) -> str:
        """Wait.

        Args:
            seconds: How long.
        """
        async with self.lock:
            self.calls += 1
            await asyncio.sleep(seconds)
            return f"call {self.calls}"

    async def get_reward(self) -> float:
        return float(self.calls)


class Base:
    """Does nothing wrong."""

    def reset(self, **kwargs: Any) -> str | None:
        return None

    def act(self, how: str = "") -> object:
        """Act.

        Args:
            how: In which way.
        """
        return "done"

    def get_reward(self) -> Any:
        return 1.0


class Raises(Base):
    def act(self, how: str = "") -> object:
        """Act.

        Args:
            how: In which way.
        """
        raise ArithmeticError("not my day")


class Hangs(Base):
    def act(self, how: str = "") -> object:
        """Act.

        Args:
            how: In which way.
        """
        while True:
            time.sleep(60)


class Dies(Base):
    def act(self, how: str = "") -> object:
        """Act.

        Args:
            how: In which way.
        """
        os._exit(3)


class Nothing(Base):
    def act(self, how: str = "") -> object:
        """Act.

        Args:
            how: In which way.
        """
        return None


class Odd(Base):
    def act(self, how: str = "") -> object:
        """Act.

        Args:
            how: In which way.
        """
        return {1, 2}.__class__


class Unbuilt(Base):
    def __init__(self) -> None:
        raise OSError("no such board")


class ResetRaises(Base):
    def reset(self, **kwargs: Any) -> str | None:
        raise KeyError("level")


class ResetHangs(Base):
    def reset(self, **kwargs: Any) -> str | None:
        while True:
            time.sleep(60)


class ResetGivesBlocks(Base):
    def reset(self, **kwargs: Any) -> Any:
        return [{"type": "text", "text": "a picture"}]


class ResetGivesHalf(Base):
    def reset(self, **kwargs: Any) -> str:
        return "a\ud800b"


class NaN(Base):
    def get_reward(self) -> Any:
        return float("nan")


class Infinite(Base):
    def get_reward(self) -> Any:
        return 1e300


class NoReward(Base):
    def get_reward(self) -> Any:
        return None


class TextReward(Base):
    def get_reward(self) -> Any:
        return "0.5"


class ListReward(Base):
    def get_reward(self) -> Any:
        return [0.5]


class RewardRaises(Base):
    def get_reward(self) -> Any:
        raise RuntimeError("the judge is out")


class RewardExits(Base):
    def get_reward(self) -> Any:
        raise SystemExit(3)


class RewardHangs(Base):
    def get_reward(self) -> Any:
        while True:
            time.sleep(60)


class CloseRaises(Base):
    def close(self) -> None:
        """Close."""
        raise OSError("stuck")


class Shared(Base):
    """Keeps its moves in the class, where every episode finds them."""

    moves: list[str] = []

    def reset(self, **kwargs: Any) -> str | None:
        self.moves.append("begun")
        return f" {len(self.moves)} moves."

    def act(self, how: str = "") -> object:
        """Act.

        Args:
            how: In which way.
        """
        self.moves.append(how)
        return len(self.moves)


class NoReset:
    def act(self) -> str:
        """Act."""
        return "done"


class NoTools:
    def reset(self, **kwargs: Any) -> None:
        return None

    def get_reward(self) -> float:
        return 1.0


class NeedsSize(Base):
    def __init__(self, size: int) -> None:
        self.size = size


class NoTypes(Base):
    def act(self, how) -> object:  # type: ignore[no-untyped-def]
        """Act.

        Args:
            how: In which way.
        """
        return how


class NoDocstring:
    def reset(self, **kwargs: Any) -> None:
        return None

    def act(self, how: str = "") -> object:
        return how


class ManyArguments(Base):
    def act(self, *how: str) -> object:
        """Act.

        Args:
            how: In which ways.
        """
        return how


class NeedsColumns(Base):
    def reset(self, board: str, level: int) -> str | None:
        return board * level


class Last:
    """Pays the last guess, in hundredths, and says how far it was from a number of its own."""

    def reset(self, **kwargs: Any) -> str:
        self.number, self.last = random.randint(1, 90), 0
        return "Guess a number."

    def guess(self, number: int) -> str:
        """Guess.

        Args:
            number: The guess.
        """
        self.last = number
        return "lower" if number > self.number else "higher"

    def get_reward(self) -> float:
        return self.last / 100


class NaNFromForty(Last):
    """Has no reward for a last guess from 40 on."""

    def get_reward(self) -> float:
        return super().get_reward() if self.last < 40 else float("nan")


class RaisesBelowForty(Last):
    """Raises for a last guess below 40, and for none."""

    def get_reward(self) -> float:
        if self.last < 40:
            raise ArithmeticError("not my day")
        return super().get_reward()


def made() -> Base:
    return Base()


def sold(environments: list[Any], stock: list[dict[str, int]], **kwargs: Any) -> list[float]:
    """A reward function of TRL."""
    return [environment.sold / sum(of.values()) for environment, of in zip(environments, stock, strict=True)]


async def told(prompts: list[Any], completions: list[Any], environments: list[Any]) -> list[float]:
    """A reward function of TRL that waits."""
    await asyncio.sleep(0)
    return [float(len(completion)) for completion in completions]


def two(environments: list[Any], **kwargs: Any) -> list[float]:
    return [1.0, 2.0]


def one(environments: list[Any], **kwargs: Any) -> float:
    return 1.0


def abstains(environments: list[Any], **kwargs: Any) -> list[None]:
    return [None]


def needs_ids(environments: list[Any], completion_ids: list[list[int]]) -> list[float]:
    return [float(len(ids)) for ids in completion_ids]


number = 3
