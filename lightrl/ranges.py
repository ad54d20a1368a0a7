"""Ranges of numbers and choices of words, stated in the type of an argument: `Annotated[float, Gt(0)]`, `Literal["sum", "mean"]`.

Every part and every config is held to them. Bounds are those of the package `annotated_types`; the types here are the common cases.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from numbers import Integral, Real
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt

MOST = 2**31 - 1
"""The largest count."""
TECHNICAL = 1000
"""Bounds above are those of memory and arithmetic: a message leaves them out, unless it is about a value beyond them."""


@dataclasses.dataclass(frozen=True)
class Usual:
    """A range outside which a number is possible and absurd: a config with it is warned of and not refused."""

    low: float = -math.inf
    """Least usual value."""
    high: float = math.inf
    """Largest usual value."""

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


Count = Annotated[int, Ge(1), Le(MOST)]
"""1 or more."""
Natural = Annotated[int, Ge(0), Le(MOST)]
"""0 or more."""
Positive = Annotated[float, Gt(0), Lt(math.inf)]
"""Above 0."""
NonNegative = Annotated[float, Ge(0), Le(1e15), Usual(0, 1e6)]
"""0 or more: a coefficient, or another factor that must leave room in 32-bit floats."""
Share = Annotated[float, Ge(0), Le(1)]
"""From 0 to 1."""
Weight = Annotated[float, Ge(-1e15), Le(1e15), Usual(-1e6, 1e6)]
"""A factor of scores: the squares of weighted scores must fit into 32-bit floats."""
GroupSize = Annotated[int, Ge(1), Le(2**16), Usual(1, 1024)]
"""Completions of one prompt."""
Passes = Annotated[int, Ge(1), Le(10_000), Usual(1, 100)]
"""Over the rows of a rollout."""
MorePasses = Annotated[int, Ge(0), Le(10_000), Usual(0, 100)]
PromptsPerRollout = Annotated[int, Ge(1), Le(2**18), Usual(1, 2**14)]
"""Groups of one rollout."""
Ahead = Annotated[int, Ge(0), Le(64)]
"""Rollouts that are kept in memory before they are learnt from."""
BatchSize = Annotated[int, Ge(1), Le(2**24), Usual(1, 2**17)]
"""Rows of one optimizer step."""
Workers = Annotated[int, Ge(1), Le(4096), Usual(1, 256)]
"""Processes on one machine."""
LearningRate = Annotated[float, Ge(0), Le(1e4), Usual(0, 10)]
"""Of an optimizer."""
Temperature = Annotated[float, Ge(0), Le(1e6), Usual(0.01, 100)]
"""Divides logits."""
Seed = Annotated[int, Ge(0), Lt(2**32)]
"""What every generator of random numbers takes."""

_SIGNS: dict[type, tuple[str, Callable[[Real, float], bool]]] = {
    Gt: (">", operator.gt),
    Ge: (">=", operator.ge),
    Lt: ("<", operator.lt),
    Le: ("<=", operator.le),
}
_MIRRORED = {">": "<", ">=": "<="}


def members_of(annotation: object) -> tuple[object, ...]:
    """The members of a Union, or the type itself."""
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)


def bare(annotation: object) -> object:
    """A type without its range, or those of the members of a Union."""
    members = members_of(annotation)
    if any(get_origin(member) is Annotated for member in members) and len(members) > 1:
        return functools.reduce(operator.or_, map(bare, members))
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def usual(annotation: object) -> Usual | None:
    """The usual range of a number; None if its type states none."""
    stated = (note for member in members_of(annotation) for note in _notes(member))
    return next((note for note in stated if isinstance(note, Usual)), None)


def rule(annotation: object, name: str, value: object = None) -> str:
    """A type in the words of a message about a name, if it has a range or choices: `0 < lam <= 1`, `clip > 0 or null`; else nothing."""
    members = members_of(annotation)
    if choices := choices_of(annotation):
        return f"{name} to be {' or '.join('null' if choice is None else repr(choice) for choice in choices)}"
    rules = [_rule_of(list(_limits(member)), name, value) for member in members if is_ranged(member)]
    return " or ".join([*rules, *(["null"] if rules and type(None) in members else [])])


def choices_of(annotation: object) -> tuple[object, ...]:
    """All values of a type that is made of `Literal` alone, None among them where it may be null; of another type nothing."""
    members = members_of(annotation)
    if any(get_origin(member) is not Literal and member is not type(None) for member in members) or members == (type(None),):
        return ()
    return tuple(value for member in members for value in (get_args(member) or (None,)))


def is_ranged(annotation: object) -> bool:
    """The type, or a member of the Union, is a number with a range."""
    return any(True for member in members_of(annotation) for _ in _limits(member))


def admits(annotation: object, value: object) -> bool:
    """True if the value is in the range or among the choices of its type, or the type has none."""
    if choices := choices_of(annotation):
        return any(type(value) is type(choice) and value == choice for choice in choices)
    members = members_of(annotation)
    ranged = [member for member in members if is_ranged(member)]
    if not ranged or (value is None and type(None) in members) or any(value in get_args(m) for m in members if get_origin(m) is Literal):
        return True
    if not isinstance(value, Real) or isinstance(value, bool):
        # of another member of the Union
        return value is not None and any(m not in ranged and m is not type(None) and get_origin(m) is not Literal for m in members)
    return any(_within(member, value) for member in ranged)


def refuse_outside(owner: type[object], given: Mapping[str, object]) -> None:
    """Refuse arguments that are outside the range or the choices which the constructor of a class states in their types.

    An argument that hands a number on to an ancestor's of the same name has the ancestor's range, unless it states its own.
    """
    ranges = ranges_of(owner)
    if wrong := [name for name, value in given.items() if name in ranges and not admits(ranges[name], value)]:
        rules, got = (rule(ranges[name], name, given[name]) for name in wrong), (f"{name}={given[name]!r:.60}" for name in wrong)
        raise ValueError(f"{owner.__name__} needs {' and '.join(rules)}, got {', '.join(got)}")


def ranges_of(owner: type[object]) -> Mapping[str, object]:
    """The types with a range or choices among those of the constructor's arguments, the ancestors' included, by name."""
    # a class is hashable, which mypy does not see of type[object]
    key: Any = owner
    return _ranges_of(key)


@functools.cache
def _ranges_of(owner: type[object]) -> Mapping[str, object]:
    found: dict[str, object] = {}
    for cls in reversed(owner.__mro__):
        init = vars(cls).get("__init__")
        if isinstance(init, types.FunctionType):
            found |= {name: annotation for name, annotation in _evaluated(init) if is_ranged(annotation) or choices_of(annotation)}
    return found


def _evaluated(init: types.FunctionType) -> Iterator[tuple[str, object]]:
    scope = vars(sys.modules[init.__module__]) if init.__module__ in sys.modules else {}
    for name, annotation in init.__annotations__.items():
        try:
            yield name, eval(annotation, scope) if isinstance(annotation, str) else annotation
        except (NameError, AttributeError):
            # a name that only a type checker imports is no number's type
            continue


def _within(annotation: object, value: Real) -> bool:
    if bare(annotation) is int and not isinstance(value, Integral):
        return False
    return all(holds(value, limit) for _, limit, holds in _limits(annotation))


def _limits(annotation: object) -> Iterator[tuple[str, float, Callable[[Real, float], bool]]]:
    """Sign, bound and comparison of each bound."""
    for note in _notes(annotation):
        if type(note) in _SIGNS:
            sign, holds = _SIGNS[type(note)]
            yield sign, getattr(note, type(note).__name__.lower()), holds


def _notes(annotation: object) -> tuple[object, ...]:
    return get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()


def _rule_of(limits: list[tuple[str, float, Callable[[Real, float], bool]]], name: str, value: object) -> str:
    low = [(sign, limit) for sign, limit, _ in limits if sign in _MIRRORED]
    beyond = value if isinstance(value, Real) else 0
    high = [(sign, _said(limit)) for sign, limit, _ in limits if sign not in _MIRRORED and (limit < TECHNICAL or not beyond < limit)]
    if low and high:
        return f"{_said(low[0][1])} {_MIRRORED[low[0][0]]} {name} {high[0][0]} {high[0][1]}"
    return " and ".join(f"{name} {sign} {limit}" for sign, limit in [*((sign, _said(limit)) for sign, limit in low), *high])


def _said(limit: float) -> str:
    return f"{limit:g}" if not float(limit).is_integer() or abs(limit) >= 10**12 else f"{int(limit):,}"
