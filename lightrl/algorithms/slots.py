"""The slots of an algorithm: its arguments that hold parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightrl.algorithms.declaration import arguments_of
from lightrl.parts.base import Part

if TYPE_CHECKING:
    from lightrl.algorithms.algorithm import Algorithm


def slots_of(cls: type[Algorithm]) -> dict[str, type[Part]]:
    """Every slot of an algorithm, those that it adds last, and the kind of part it holds."""
    return {name: argument.kind for name, argument in arguments_of(cls).items() if argument.kind is not None}
