"""Numbers in YAML mean what they look like."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lightrl.config.read.yaml_files import parse_yaml


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_as_python_writes_it(number: float) -> None:
    assert parse_yaml(repr(number)) == number
    assert isinstance(parse_yaml(repr(number)), float)


@given(st.integers())
def test_an_integer_stays_one(number: int) -> None:
    assert parse_yaml(str(number)) == number
    assert isinstance(parse_yaml(str(number)), int)


def test_learning_rates_and_words() -> None:
    assert parse_yaml("[1e-6, 1E5, 5e-05, -1.5e+3, .5, 3.]") == [1e-6, 1e5, 5e-5, -1500.0, 0.5, 3.0]
    assert parse_yaml("['1e-6', e5, 1e, a1e5, -]") == ["1e-6", "e5", "1e", "a1e5", "-"]
