"""A check: one sentence of the contract of a kind, and a function that raises when a class breaks it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from lightrl.kinds import KINDS
from lightrl.statistic import Statistic, Statistics, WithStatistics

T = TypeVar("T")
Example = TypeVar("Example")
Make = Callable[[], T]
"""Builds a fresh instance of the class in question, with the same arguments every time."""
EVERY = "part"
"""The kind of the checks that hold for the classes of every kind of part."""
NO_PARTS = frozenset(kind.title for kind in KINDS.values() if not kind.is_part)
"""Kinds whose classes are no parts: they have no needs, and Lightning or nobody saves their state."""


class BrokenContract(AssertionError):  # noqa: N818 - it reads better without a suffix
    """A class does not do what every class of its kind must; the message shows the smallest example found."""

    def __init__(self, what: str, **example: object) -> None:
        """
        Args:
            what: the fault, and what was expected.
            **example: the values in question by name.
        """
        super().__init__("\n".join([what, *(f"  {name} = {shown(value)}" for name, value in example.items())]))


@dataclass(frozen=True)
class Check:
    """One line of the contract of a kind."""

    kind: str
    """The title of the kind, or `part` for classes of every kind."""
    title: str
    """The sentence."""
    run: Callable[[Make[Any]], None]
    """Raises `BrokenContract` if the class breaks it."""


CHECKS: list[Check] = []
"""Every check of every contract, in the order of definition."""


def contract_check(kind: str, title: str) -> Callable[[Callable[[Make[T]], None]], Callable[[Make[T]], None]]:
    """Make a function a check of the contract of every class of a kind."""

    def register(run: Callable[[Make[T]], None]) -> Callable[[Make[T]], None]:
        CHECKS.append(Check(kind, title, run))
        return run

    return register


def contract_check_on(
    kind: str, title: str, examples: Callable[[T], Iterable[Example]]
) -> Callable[[Callable[[Make[T], Example], None]], Callable[[Make[T], Example], None]]:
    """Make a function a check of the contract of every class of a kind, on each of the examples for an instance, smallest first."""

    def register(run: Callable[[Make[T], Example], None]) -> Callable[[Make[T], Example], None]:
        def on_each(make: Make[T]) -> None:
            for example in examples(make()):
                run(make, example)

        CHECKS.append(Check(kind, title, on_each))
        return run

    return register


def checks_of(kind: str) -> list[Check]:
    """The contract of a kind: the checks for every part first, since a class that breaks one of them breaks others as well."""
    wanted = (kind,) if kind in NO_PARTS else (EVERY, kind)
    return [check for of in wanted for check in CHECKS if check.kind == of]


def shown(value: object) -> str:
    """A value in a message: shape, dtype and numbers of a tensor, anything else as Python shows it."""
    if isinstance(value, WithStatistics):
        return shown(value.value)
    if not isinstance(value, Tensor):
        return repr(value)
    numbers = value.detach().cpu()
    rounded = numbers.double().mul(1e4).round().div(1e4).tolist() if numbers.is_floating_point() else numbers.tolist()
    return f"{list(value.shape)} {str(value.dtype).removeprefix('torch.')} {rounded}"


def expect_same(one: Tensor, other: Tensor, what: str, tolerance: float = 1e-5, **example: object) -> None:
    """Both tensors hold the same numbers, up to a tolerance relative to the largest of them."""
    expect_shape(other, list(one.shape), what, **example)
    before, after = one.detach().double(), other.detach().double()
    scale = max(1.0, float(before.abs().max()) if before.numel() else 1.0)
    if not torch.allclose(before, after, rtol=0, atol=tolerance * scale):
        raise BrokenContract(what, before=one, after=other, **example)


def expect_shape(value: object, shape: list[int], what: str, **example: object) -> None:
    """The value is a tensor of this shape."""
    if not isinstance(value, Tensor):
        raise BrokenContract(f"{what}: expected a tensor of shape {shape}, got {type(value).__name__}", **example)
    if list(value.shape) != shape:
        raise BrokenContract(f"{what}: expected shape {shape}, got {list(value.shape)}", **example)


def expect(holds: bool | Tensor, what: str, **example: object) -> None:
    """The condition holds; of a tensor, everywhere."""
    if not bool(holds.all() if isinstance(holds, Tensor) else holds):
        raise BrokenContract(what, **example)


def expect_statistics(statistics: Statistics, rows: int, length: int, **example: object) -> None:
    """Statistics are tensors per row or per token."""
    for name, statistic in statistics.items():
        value: object = statistic.value if isinstance(statistic, Statistic) else statistic
        fits = isinstance(value, Tensor) and list(value.shape) in ([rows], [rows, length])
        expect(fits, f"statistic {name!r} must have shape [{rows}] or [{rows}, {length}], got {shown(value)}", **example)
