"""Tools of the tests: good ones, and one for each thing that can go wrong."""

from __future__ import annotations

import enum
import os
import signal
import time
from typing import Any, Literal

from lightrl_code import ToolUnavailableError


class Unit(enum.Enum):
    """A unit of temperature."""

    CELSIUS = "C"
    FAHRENHEIT = "F"


def add(a: int, b: int) -> int:
    """Add two integers.

    Args:
        a: the first.
        b: the second.
    """
    return a + b


def kinds(
    number: float = 0.5,
    flag: bool = False,
    names: list[str] | None = None,
    pair: tuple[int, str] = (0, ""),
    unit: Unit = Unit.CELSIUS,
    way: Literal["up", "down", 3] = "up",
    table: dict[str, float] | None = None,
    anything: Any = None,
    either: int | str = 0,
) -> str:
    """Show what was given, and of which types.

    Args:
        number: a number.
        flag: a flag.
        names: some names.
        pair: a pair.
        unit: a unit.
        way: a way.
        table: numbers by name.
        anything: whatever.
        either: one or the other.
    """
    return repr((number, flag, names, pair, unit, way, table, anything, either))


def drink(beverage: str) -> str:
    """Drink something.

    Args:
        beverage: to be drunk (choices: ["tea", "coffee"])
    """
    return f"a cup of {beverage}"


def raises(message: str = "not my day") -> str:
    """Raise.

    Args:
        message: to raise.
    """
    raise ArithmeticError(message)


def leaves() -> str:
    """End the process."""
    raise SystemExit(3)


def interrupts() -> str:
    """Raise what Ctrl-C does."""
    raise KeyboardInterrupt


def hangs() -> str:
    """Never return."""
    while True:
        time.sleep(60)


def hangs_on() -> str:
    """Go on once after being interrupted, and twice after anything else."""
    for _ in range(2):
        try:
            time.sleep(60)
        except BaseException:
            time.sleep(0)
    return "at last"


def stays() -> str:
    """Never return, and let no interrupt through: one that came between two `try` would end it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    while True:
        time.sleep(60)


def prints() -> str:
    """Print, and return something else."""
    print("noise")  # noqa: T201
    return "signal"


def destroys(rows: list[Any], table: dict[str, Any]) -> int:
    """Delete and change what it was given.

    Args:
        rows: some rows.
        table: a table.
    """
    rows.clear()
    table["rows"] = rows
    del table["kept"]
    return len(rows)


def much() -> str:
    """Return ten megabytes."""
    return "x" * 10_000_000


class _Strange:
    def __repr__(self) -> str:
        return "<strange>"


def strange() -> object:
    """Return what is no JSON."""
    return _Strange()


def unprintable() -> object:
    """Return what cannot even be shown."""

    class Unprintable:
        def __repr__(self) -> str:
            raise ValueError("no")

    return Unprintable()


def halves() -> str:
    """Return half of a character."""
    return "a\ud800b"


def process() -> int:
    """The number of the process."""
    return os.getpid()


def unavailable() -> str:
    """Have no service to ask."""
    raise ToolUnavailableError("the service is down")


class Counter:
    """Counts up from where the episode begins."""

    def __init__(self, seed: int, start: int = 0) -> None:
        self.value = start + seed

    def up(self, by: int = 1) -> int:
        """Count up.

        Args:
            by: how far.
        """
        self.value += by
        return self.value

    @staticmethod
    def zero() -> int:
        """Nothing."""
        return 0

    def _hidden(self) -> None:
        """Not a tool."""


class NeedsColumn:
    """Wants a column that not every prompt has."""

    def __init__(self, stock: dict[str, int]) -> None:
        self.stock = stock

    def left(self, item: str) -> int:
        """How much is left.

        Args:
            item: of this.
        """
        return self.stock[item]


class Multiplier:
    """Multiplies by a fixed number."""

    def __init__(self, factor: int) -> None:
        self.factor = factor

    def __call__(self, x: int) -> int:
        """Multiply.

        Args:
            x: by this.
        """
        return self.factor * x


triple = Multiplier(3)


def no_docstring(a: int) -> int:
    return a


def no_type(a) -> int:  # type: ignore[no-untyped-def]
    """Have no type.

    Args:
        a: of any type.
    """
    return int(a)


def no_description(a: int) -> int:
    """Describe no argument."""
    return a


def odd_type(a: Counter) -> int:
    """Want what no call can give.

    Args:
        a: an object.
    """
    return a.value


def many(*numbers: int) -> int:
    """Take any number of numbers.

    Args:
        numbers: to be added.
    """
    return sum(numbers)


async def later(a: int) -> int:
    """Come later.

    Args:
        a: a number.
    """
    return a


class Empty:
    """Has nothing to call."""


number = 3
