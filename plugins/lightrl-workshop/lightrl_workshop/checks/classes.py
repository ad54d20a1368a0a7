"""What every class must have: documentation of itself and its arguments, and a state that survives a checkpoint."""

from __future__ import annotations

import inspect
import io
import re
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from lightrl.prompt import JSON
from lightrl_workshop.checks.check import BrokenContract, expect


def check_documentation(cls: type[object]) -> None:
    """Check the docstrings and the signature of a class.

    Raises:
        BrokenContract: one of them is missing; the message says which and what to write.
    """
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
    """Carry the state of one instance to another as a checkpoint does.

    Raises:
        BrokenContract: something of it is neither tensor nor JSON, cannot be loaded without executing code, or got lost.
    """
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
    expect(
        same_state(new.state_dict(), state), "a new instance that took the state back has another one", given=state, kept=new.state_dict()
    )


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
