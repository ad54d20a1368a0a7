"""The contract of every class that plugins register."""

from __future__ import annotations

import inspect
import io
import re
from typing import Any

import torch
from torch import Tensor

from lightrl.algorithms.algorithm import Algorithm
from lightrl.parts.base import NEEDS
from lightrl.parts.loss_term import LossTerm
from lightrl.parts.objective import Objective
from lightrl.testing.contracts.check import BrokenContract, Make, contract_check, expect


@contract_check("part", "what it needs is known, and given to parts of its kind")
def known_needs(make: Make) -> None:
    """Stands first: a part that asks for what it never gets fails in most other promises too, and this one says why."""
    part = make()
    needs = frozenset(part.needs)
    expect(needs <= NEEDS, f"it needs {sorted(needs - NEEDS)}, and a part may need: {', '.join(sorted(NEEDS))}")
    # as `Algorithm` refuses it when it is built, whose own needs are those of its parts
    blind = "entropy" in needs and not isinstance(part, (LossTerm, Algorithm))
    expect(
        not blind,
        "it needs the policy's entropy, which is there while a step is computed and given to loss terms alone: make it a LossTerm, or use "
        "the log-probs of the sampled tokens, experience.old_logprobs",
    )
    offline = sorted(needs - {"ref_logprobs"}) if isinstance(part, Objective) else []
    expect(not offline, f"it needs {offline}, and an objective is given log-probs of policy and reference alone: it may need ref_logprobs")


@contract_check("part", "the class and each of its arguments is documented and typed")
def documented(make: Make) -> None:
    """A docstring of its own, and `name: what it is` and a type for each argument."""
    check_documentation(type(make()))


def check_documentation(cls: type[Any]) -> None:
    """Look at the docstrings and the signature of a class.

    Raises:
        BrokenContract: one of them is missing; the message says which and what to write.
    """
    expect(bool((cls.__dict__.get("__doc__") or "").strip()), f"{cls.__name__} has no docstring: say in one sentence what it does")
    for owner in cls.__mro__:
        init = owner.__dict__.get("__init__")
        if owner is not object and inspect.isfunction(init):
            _check_arguments(owner, init)


def _check_arguments(owner: type[Any], init: Any) -> None:
    text = f"{owner.__doc__ or ''}\n{init.__doc__ or ''}"
    for argument in list(inspect.signature(init).parameters.values())[1:]:
        if argument.kind in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
            continue
        where = f"argument {argument.name!r} of {owner.__name__}.__init__"
        expect(argument.annotation is not argument.empty, f"{where} has no type: `lightrl fit --help` could not say what to give")
        described = re.search(rf"^\s*{argument.name}\s*(\(.*\))?:\s*\S", text, re.MULTILINE)
        expect(described is not None, f"{where} is not described: write `{argument.name}: what it is` under Args in the docstring")


@contract_check("part", "its state survives a restart")
def state_survives(make: Make) -> None:
    """Saved, loaded without executing code, and taken back by a new instance."""
    round_trip(make(), make())


@contract_check("part", "it can be shown")
def can_be_shown(make: Make) -> None:
    """`repr` names the class."""
    part = make()
    expect(type(part).__name__ in repr(part), f"repr() does not name the class: {part!r}")


def round_trip(old: Any, new: Any) -> None:
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


def _check_plain(value: Any, where: str) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            expect(isinstance(key, str), f"{where} has the key {key!r}: keys must be strings, or JSON turns them into some")
            _check_plain(item, f"{where}[{key!r}]")
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            _check_plain(item, f"{where}[{i}]")
    elif not isinstance(value, (Tensor, str, int, float, bool, type(None))):
        raise BrokenContract(f"{where} is a {type(value).__name__}: state must be tensors and JSON values", value=value)


def same_state(one: Any, other: Any) -> bool:
    """Equal to the last bit, tensors included."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_state(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(same_state(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.dtype == other.dtype and torch.equal(one.nan_to_num(), other.nan_to_num())
    return bool(one == other)
