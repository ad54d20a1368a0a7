"""Ranges of arguments: what they admit, how they are said, and that every part is held to them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge, Gt, Le, Lt
from hypothesis import given
from hypothesis import strategies as st

from lightrl import DecoupledClip, GroupSampler, KLPenalty, LossTerm, Part, SymmetricClip, TinyPolicy
from lightrl.arguments import arguments_of, type_name
from lightrl.kinds import KINDS
from lightrl.ranges import Count, Positive, Share, Temperature, Weight, admits, bare, choices_of, ranges_of, rule, usual
from lightrl.registry.classes import registry


@given(st.one_of(st.floats(), st.integers(), st.booleans(), st.none(), st.text(max_size=3), st.lists(st.integers(), max_size=2)))
def test_a_range_admits_the_numbers_in_it_and_nothing_else(value: Any) -> None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    whole = isinstance(value, int) and number
    assert admits(Share, value) == (number and 0 <= value <= 1)
    assert admits(Positive, value) == (number and 0 < value < math.inf)
    assert admits(Positive | None, value) == (value is None or (number and 0 < value < math.inf))
    assert admits(Count, value) == (whole and 1 <= value < 2**31)
    assert admits(Literal[-1] | Count, value) == (value == -1 or (whole and 1 <= value < 2**31))
    assert admits(Count | str, value) == ((whole and 1 <= value < 2**31) if number else value is not None)
    assert admits(float, value)


def test_a_range_is_said_as_one_writes_it() -> None:
    assert rule(Annotated[float, Gt(0), Lt(1)], "epsilon") == "0 < epsilon < 1"
    assert rule(Positive | None, "clip") == "clip > 0 or null"
    assert rule(Count, "group_size") == "group_size >= 1"
    assert rule(Annotated[int, Ge(1), Le(65536)], "int") == "int >= 1"
    assert rule(Annotated[int, Ge(1), Le(65536)], "int", 10**6) == "1 <= int <= 65,536"
    assert rule(Annotated[int, Ge(1), Le(65536)], "int", math.nan) == "1 <= int <= 65,536"
    assert rule(float | None, "beta") == ""
    assert rule(Literal["sum", "mean"] | None, "over") == "over to be 'sum' or 'mean' or null"


def test_the_type_behind_a_range_is_that_of_its_values() -> None:
    assert bare(Positive | None) == float | None
    assert bare(Count) is int
    assert bare(str | None) == str | None


def test_what_is_usual_is_narrower_than_what_is_possible() -> None:
    found = usual(Temperature | None)
    assert found is not None
    assert 1.0 in found
    assert 1e-30 not in found
    assert admits(Temperature, 1e-30)
    assert usual(Positive) is None


def _ranged() -> Iterator[tuple[type[Any], str, object]]:
    for kind in KINDS:
        for _, cls in registry().of_kind(kind):
            if issubclass(cls, Part):
                yield from ((cls, name, annotation) for name, annotation in ranges_of(cls).items())


def test_no_registered_part_takes_a_word_that_is_none_of_its_choices() -> None:
    """Two corrections, three advantages and an aggregation took a misspelt word for the other choice, if Python had made them."""
    tried = set()
    for cls, name, annotation in _ranged():
        if choices_of(annotation) and name in _arguments(cls):
            with pytest.raises(ValueError, match=rf"^{cls.__name__} needs .*\b{name} to be .* or .*, got .*{name}='misspelt'"):
                cls(**{name: "misspelt"})
            tried.add(f"{cls.__name__}.{name}")
    assert {"TruncatedImportance.level", "SequenceSumTokenMean.over", "GroupNormalized.std", "TurnNormalized.std"} <= tried


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "1", True, 10**400], ids=lambda value: f"{value!r:.6}")
def test_no_registered_part_takes_what_is_no_number_of_its_range(value: Any) -> None:
    tried = 0
    for cls, name, annotation in _ranged():
        if admits(annotation, value) or name not in _arguments(cls):
            continue
        with pytest.raises(ValueError, match=rf"^{cls.__name__} needs .*\b{name}\b"):
            cls(**{name: value})
        tried += 1
    assert tried > 50


def _arguments(cls: type[Any]) -> set[str]:
    return set(arguments_of(cls))


def test_every_broken_rule_is_named_with_what_was_given() -> None:
    with pytest.raises(ValueError, match=r"^DecoupledClip needs 0 <= low <= 1 and high > 0, got low=nan, high=0$"):
        DecoupledClip(low=math.nan, high=0)
    with pytest.raises(ValueError, match=r"^GroupSampler needs group_size >= 1, got group_size=0$"):
        GroupSampler(0)
    with pytest.raises(ValueError, match=r"^TinyPolicy needs 1 <= layers <= 128, got layers=None$"):
        TinyPolicy(layers=None)  # type: ignore[arg-type]


class Handing(SymmetricClip):
    """Hands its number on under the same name, and says nothing of its range."""

    def __init__(self, epsilon: float = 0.2, scale: float = 1.0) -> None:
        super().__init__(epsilon * scale)


class Wider(LossTerm):
    """Has a range of its own where its ancestor has another."""

    def __init__(self, coefficient: Annotated[float, Ge(2)]) -> None:
        super().__init__(coefficient)

    def weights(self, experience: Any) -> Any: ...

    def loss(self, experience: Any, output: Any) -> Any: ...


def test_an_argument_of_the_same_name_has_its_ancestors_range_unless_it_states_one() -> None:
    with pytest.raises(ValueError, match=r"Handing needs 0 < epsilon < 1, got epsilon=1\.5"):
        Handing(1.5)
    assert Handing(0.5, scale=0.5).epsilon == 0.25
    assert type_name(arguments_of(Handing)["epsilon"].slot.annotation) == "0 < float < 1"
    assert not admits(Weight, 1e30)
    with pytest.raises(ValueError, match="Wider needs coefficient >= 2"):
        Wider(1.0)
    assert Wider(1e30).coefficient == 1e30


@pytest.mark.parametrize("name", ["loss_coefficient", "reward_coefficient"])
def test_low_a_coefficient_that_leaves_no_room_in_a_float_is_refused(name: str) -> None:
    assert getattr(KLPenalty(**{name: 1e15}), name) == 1e15
    with pytest.raises(ValueError, match=rf"KLPenalty needs 0 <= {name} <= 1e\+15, got {name}=1e\+30"):
        KLPenalty(**{name: 1e30})
