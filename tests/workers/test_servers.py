"""Keys stand in the environment and nowhere else, and addresses hold no secret."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightrl import ApiKey, server_address


def test_a_key_is_read_when_it_is_used_and_kept_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", " sk-one\n")
    key = ApiKey("MY_KEY")
    assert key.value() == "sk-one"
    monkeypatch.setenv("MY_KEY", "sk-two")
    assert key.value() == "sk-two"
    assert "sk-" not in repr(vars(key)) + str(pickle.dumps(copy.deepcopy(key)))
    assert key.redact("401: sk-two is not sk-two?") == "401: $MY_KEY is not $MY_KEY?"


def test_a_server_may_want_none() -> None:
    assert ApiKey(None).value() is None
    assert ApiKey(None).redact("all of it") == "all of it"


@pytest.mark.parametrize(("name", "said"), [("sk-secret", "never the key itself"), ("NOT_SET_ANYWHERE", "NOT_SET_ANYWHERE.* holds no key")])
def test_a_name_that_leads_to_no_key_is_refused(name: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as refused:
        ApiKey(name)
    assert "sk-secret" not in str(refused.value)


def test_an_address_is_taken_as_it_is() -> None:
    assert server_address("https://host:8000/v1", "base_url", "http://localhost:8000/v1") == "https://host:8000/v1"


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("localhost:8000", "base_url must be like http://here, got 'localhost:8000'"),
        ("https://", "base_url must be like http://here"),
        ("https://me:word@host", "base_url must hold no user, password or query"),
        ("https://host/v1?key=word", "base_url must hold no user, password or query"),
    ],
)
def test_an_address_that_is_none_or_holds_a_secret_is_refused(address: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as refused:
        server_address(address, "base_url", "http://here")
    assert "word" not in str(refused.value).replace("password", "")


@given(st.data())
def test_h3_no_eight_characters_of_a_key_in_a_row_are_left(data: st.DataObject) -> None:
    key = data.draw(st.text("abcDEF019-_.*+$\\", min_size=8, max_size=40), "key")
    between = st.text("xyz \n[]{}\u200b", max_size=9)
    runs = st.integers(0, len(key) - 1).flatmap(lambda a: st.integers(a, len(key)).map(lambda b: key[a:b]))
    pieces = data.draw(st.lists(st.tuples(between, runs | st.just(key.swapcase())), max_size=5), "pieces")
    text = "".join(a + b for a, b in pieces)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MY_KEY", key)
        told = ApiKey("MY_KEY").redact(text)
    parts = {key[at : at + 8].lower() for at in range(len(key) - 7)}
    assert not any(part in told.replace("$MY_KEY", "\0").lower() for part in parts)
    if not any(part in text.lower() for part in parts):
        assert told == text
