"""A check: one sentence of the contract of a kind, and a function that raises when a class breaks it; and checks of every class."""

from __future__ import annotations

import inspect
import io
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from lightrl.kinds import KINDS
from lightrl.prompt import JSON
from lightrl.statistic import Statistic, Statistics, WithStatistics

T = TypeVar("T")
Example = TypeVar("Example")
Make = Callable[[], T]
"""Builds a fresh instance of the class in question, with the same arguments every time."""
EVERY = "part"
"""The kind of the checks that hold for the classes of every kind of part."""
NO_PARTS = frozenset(kind.title for kind in KINDS.values() if not kind.is_part)
"""Kinds whose classes are no parts: they have no needs, and if their state is saved, Lightning saves it."""
CHECKS: list[Check] = []
"""The checks of the contracts that have been imported, in the order of definition; see `contracts.own_checks`."""


class BrokenContract(AssertionError):  # noqa: N818 - it reads better without a suffix
    """A class does not do what every class of its kind must; the message shows the smallest example found."""

    def __init__(self, what: str, **example: object) -> None:
        """The fault and what was expected, and the values in question by name."""
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


def contract_check(kind: str, title: str) -> Callable[[Callable[[Make[T]], None]], Callable[[Make[T]], None]]:
    """Make a function a check of the contract of every class of a kind."""

    def register(run: Callable[[Make[T]], None]) -> Callable[[Make[T]], None]:
        CHECKS.append(Check(kind, title, run))
        return run

    return register


def contract_check_on(
    kind: str, title: str, examples: Callable[[Any], Iterable[Example]]
) -> Callable[[Callable[[Make[T], Example], None]], Callable[[Make[T], Example], None]]:
    """Make a function a check of the contract of every class of a kind, on each of the examples for an instance, smallest first."""

    def register(run: Callable[[Make[T], Example], None]) -> Callable[[Make[T], Example], None]:
        def on_each(make: Make[T]) -> None:
            for example in examples(make()):
                run(make, example)

        CHECKS.append(Check(kind, title, on_each))
        return run

    return register


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


def check_documentation(cls: type[object]) -> None:
    """Refuse, with what to write, a class without its docstrings or a type in its signature."""
    expect(bool((cls.__dict__.get("__doc__") or "").strip()), f"{cls.__name__} has no docstring: say in one sentence what it does")
    for owner in cls.__mro__:
        init = owner.__dict__.get("__init__")
        if owner is not object and inspect.isfunction(init):
            _check_arguments(owner, init)


def _check_arguments(owner: type[object], init: Callable[..., None]) -> None:
    text = f"{owner.__doc__ or ''}\n{init.__doc__ or ''}"
    for argument in list(inspect.signature(init).parameters.values())[1:]:
        if argument.kind in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
            continue
        where = f"argument {argument.name!r} of {owner.__name__}.__init__"
        expect(argument.annotation is not argument.empty, f"{where} has no type: `lightrl fit --help` could not say what to give")
        described = re.search(rf"^\s*{argument.name}\s*(\(.*\))?:\s*\S", text, re.MULTILINE)
        expect(described is not None, f"{where} is not described: write `{argument.name}: what it is` under Args in the docstring")


class Registered(Protocol):
    """The members of every class that plugins register."""

    @property
    def needs(self) -> frozenset[str]:
        """The numbers that the core computes for it."""

    def state_dict(self) -> dict[str, JSON]:
        """The state that survives a restart."""

    def load_state_dict(self, state: dict[str, JSON]) -> None:
        """Take it back."""


def round_trip(old: Registered, new: Registered) -> None:
    """Carry the state of one instance to another as a checkpoint does: plain, loaded without executing code, and nothing lost."""
    state = old.state_dict()
    _check_plain(state, "state_dict()")
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    try:
        loaded = torch.load(file, weights_only=True)
    except Exception as error:
        raise BrokenContract(f"torch.load(weights_only=True) refuses its state: {str(error).splitlines()[0]}", state=state) from error
    if loaded:
        new.load_state_dict(loaded)
    kept = new.state_dict()
    expect(same_state(kept, state), "a new instance that took the state back has another one", given=state, kept=kept)


def _check_plain(value: object, where: str) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            expect(isinstance(key, str), f"{where} has the key {key!r}: keys must be strings, or JSON turns them into some")
            _check_plain(item, f"{where}[{key!r}]")
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            _check_plain(item, f"{where}[{i}]")
    elif not isinstance(value, (Tensor, str, int, float, bool, type(None))):
        raise BrokenContract(f"{where} is a {type(value).__name__}: state must be tensors and JSON values", value=value)


def same_state(one: object, other: object) -> bool:
    """Equal to the last bit, tensors included."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_state(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(same_state(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.dtype == other.dtype and torch.equal(one.nan_to_num(), other.nan_to_num())
    return bool(one == other)
