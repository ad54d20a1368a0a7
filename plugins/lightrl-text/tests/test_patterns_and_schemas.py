import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lightrl_text import JsonSchema, RegularExpression

from lightrl import Prompt

PROMPT = Prompt(id="p", text="?")
PERSON = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}}}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("where", "completion", "matches"),
    [
        ("search", "so 42 it is", True),
        ("search", "none", False),
        ("match", "42 it is", True),
        ("match", "so 42", False),
        ("fullmatch", "42", True),
        ("fullmatch", "42 ", False),
    ],
)
def test_where_a_pattern_must_match(where: Any, completion: str, matches: bool) -> None:
    assert RegularExpression(r"\d+", where=where, found=2.0, missing=-1.0).score(PROMPT, completion) == (2.0 if matches else -1.0)


def test_a_pattern_without_end_is_given_up() -> None:
    start = time.monotonic()
    with pytest.raises(TimeoutError, match=r"0\.2 s"):
        RegularExpression(r"(a|aa)+$", where="match", limit_s=0.2).score(PROMPT, "a" * 50 + "b")
    assert time.monotonic() - start < 8.0


@given(st.text(max_size=30))
def test_a_text_matches_itself(text: str) -> None:
    import regex

    assert RegularExpression(regex.escape(text), where="fullmatch").score(PROMPT, text) == 1.0


def test_what_is_no_pattern() -> None:
    with pytest.raises(ValueError, match=r"pattern '\('"):
        RegularExpression("(")
    with pytest.raises(ValueError, match="limit_s > 0"):
        RegularExpression("a", limit_s=0.0)


@pytest.mark.parametrize(
    ("completion", "score"),
    [
        ('{"name": "Ada", "age": 36}', 1.0),
        ('  {"name": "Ada"}\n', 1.0),
        ('Here:\n```json\n{"name": "Ada"}\n```\nDone.', 1.0),
        ('```\n{}\n```\nbetter\n```JSON\n{"name": "Ada"}\n```', 1.0),
        ('<think>{"name": 1}</think>{"name": "Ada"}', 1.0),
        ('{"age": 36}', -1.0),
        ('{"name": "Ada", "age": -1}', -1.0),
        ('{"name": "Ada", "age": 1.5}', -1.0),
        ("[]", -1.0),
        ('{"name": "Ada"', -2.0),
        ('{"name": NaN}', -2.0),
        ('Her name: {"name": "Ada"}', -2.0),
        ("[" * 100_000, -2.0),
        ("9" * 10_000, -2.0),
        ("", -2.0),
    ],
)
def test_json(completion: str, score: float) -> None:
    assert JsonSchema(schema=PERSON, valid=1.0, invalid=-1.0, unparsable=-2.0).score(PROMPT, completion) == score


@given(JSON)
@settings(deadline=None)
def test_any_json_meets_the_schema_that_names_it_and_no_other(value: Any) -> None:
    text = json.dumps(value)
    assert JsonSchema(schema={"const": value}).score(PROMPT, text) == 1.0
    assert JsonSchema(schema={"not": {"const": value}}, invalid=-1.0).score(PROMPT, f"```json\n{text}\n```") == -1.0


def test_the_schema_of_the_prompt() -> None:
    for schema in (PERSON, json.dumps(PERSON)):
        assert JsonSchema().score(PROMPT, '{"name": "Ada"}', schema=schema) == 1.0
        assert JsonSchema().score(PROMPT, "{}", schema=schema) == 0.0
    with pytest.raises(ValueError, match=r"'schema' .*'p' .*None"):
        JsonSchema().score(PROMPT, "{}")
    with pytest.raises(ValueError, match="schema"):
        JsonSchema().score(PROMPT, "{}", schema="{")


@pytest.mark.parametrize("schema", [{"type": "text"}, {"properties": 3}])
def test_what_is_no_schema(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="schema"):
        JsonSchema(schema=schema)


def test_no_reference_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    import urllib.request

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("it tried to fetch a schema")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    with pytest.raises(Exception, match=r"http://127\.0\.0\.1:9/other"):
        JsonSchema(schema={"$ref": "http://127.0.0.1:9/other"}).score(PROMPT, "{}")
