"""Numbers in YAML mean what they look like."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
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


def test_low_a_time_is_no_number() -> None:
    assert parse_yaml("[1:30, 1:30.5, 0x10, 0b11, 010, 1_000, -7, +7]") == ["1:30", "1:30.5", 16, 3, 8, 1000, -7, 7]


@pytest.mark.parametrize(
    "value",
    [
        '!!timestamp "x"',
        '!!bool "x"',
        '!!int "x"',
        "!!int ''",
        "2001-13-45",
        "9" * 5000,
        '"\\UFFFFFFFF"',
        '"\\U00110000"',
        "!!map [1]",
        "!!set 5",
    ],
)
def test_low_a_value_that_cannot_be_read_is_refused(value: str) -> None:
    with pytest.raises(yaml.YAMLError) as refused:
        parse_yaml(f"a: 1\nb: {value}\n")
    assert isinstance(refused.value, yaml.MarkedYAMLError) == (r"\U" not in value), "most are told with their line"


BOMBS = {
    "lists": "\n".join(["a0: &a0 [x, x]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10))]),
    "mappings": "\n".join(["a0: &a0 {x: 1}", *(f"a{i}: &a{i} {{x: *a{i - 1}, y: *a{i - 1}}}" for i in range(1, 41))]),
    "a mapping that holds itself": "a: &a {b: *a}",
    "a list that holds itself": "a: &a [1, *a]",
    "a list as key": "{[a, b]: 1}",
    "a mapping as key": "{{a: b}: 1}",
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_low_what_would_unfold_without_end_is_refused_at_once(bomb: str, write: Any, lightrl: Any) -> None:
    with pytest.raises(yaml.YAMLError):
        parse_yaml(BOMBS[bomb])
    write("bomb.yaml", BOMBS[bomb])
    for words in (["--no-import"], []):
        answer = lightrl("check", "--config", "bomb.yaml", *words)
        assert answer.status == 2
        assert "bad YAML" in answer.err
        # in a text it is a text, and other libraries read it as YAML
        answer = lightrl("check", "--config", "run.yaml", "--trainer.callbacks", BOMBS[bomb], *words)
        assert answer.status == (0 if words else 2)


@pytest.mark.parametrize("name", ["no", "~", "5", "1.5", "''", "' '", r'"\e[31m"', r'"\u200b"', r'"\u202e"', r'"a\0"'])
def test_low_a_reward_is_called_by_a_text(name: str, write: Any, lightrl: Any) -> None:
    write("named.yaml", f"model: {{rewards: {{{name}: ExactMatch}}}}")
    answer = lightrl("check", "--config", "run.yaml", "--config", "named.yaml")
    assert answer.status == 2
    assert answer.err.isascii()
    assert answer.err.replace("\n", "").isprintable()
    assert answer.err.startswith("model.rewards: a name in a mapping is a visible text")
