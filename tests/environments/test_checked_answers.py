"""What comes back from an environment, by type, size and number."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightrl import Reply
from lightrl.environments.checked_answers import LARGEST_TEXT, checked_opening, checked_reply
from lightrl.workers.calls import WrongAnswerError

NUMBERS = st.booleans() | st.integers(-(10**9), 10**9) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.none() | NUMBERS | st.text(max_size=5) | st.lists(NUMBERS, max_size=3) | st.fixed_dictionaries({"a": NUMBERS})


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.text(max_size=3), VALUES, max_size=3), st.floats(-1e9, 1e9), st.booleans())
def test_a_valid_reply_survives_json_as_it_is(state: dict[str, Any], reward: float, done: bool) -> None:
    reply = Reply("on", reward, done, state, {"calls": 2})
    checked = checked_reply(reply)
    assert Reply(*checked) == reply
    assert json.loads(json.dumps(checked)) == checked


def test_numpy_numbers_are_welcome() -> None:
    reply = Reply("on", np.float32(0.5), np.bool_(True), {"board": [np.int64(3)]}, {"moves": np.int32(2)})  # type: ignore[arg-type]
    assert checked_reply(reply) == ["on", 0.5, True, {"board": [3]}, {"moves": 2.0}, None]
    assert [type(value) for value in checked_reply(reply)[:5]] == [str, float, bool, dict, dict]
    assert checked_reply(Reply("on", extras={"near": np.float32(0.5), "won": True}), {"near", "won"})[5] == {"near": 0.5, "won": 1.0}  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (("on", 1.0, False), "expected a Reply"),
        (None, "returned NoneType None"),
        (Reply("on", math.inf), "reward is inf"),
        (Reply("on", 1e39), "finite"),
        (Reply("on", "1"), "str '1', expected a number"),
        (Reply("on", done=1), "done is int 1"),
        (Reply("on", state=[1]), "state is list"),
        (Reply("on", state={"a": {1: 2}}), r"state\['a'\] has the name int 1"),
        (Reply("on", state={"a": [math.nan]}), r"state\['a'\]\[0\] is float nan"),
        (Reply("on", state={"a": {1, 2}}), "expected a JSON value"),
        (Reply("on", counts={"a": math.nan}), r"counts\['a'\] is float nan"),
        (Reply("on", counts={"a": None}), "expected a number"),
        (Reply("on", extras={"naer": 1.0}), r"has 'naer', and the class declares near: have it in gives for a number of the ep"),
        (Reply("on", extras={"near": None}), r"extras\['near'\] is NoneType None, expected a number"),
        (Reply("on", extras={"near": 1e39}), "expected a finite number"),
        (Reply("on", extras=1.0), "extras is float 1.0, expected a mapping"),
        (Reply(), "told the policy nothing"),
        (Reply([]), "told the policy nothing"),
        (Reply(7), "expected a text or a list of messages"),
        (Reply("\ud83d"), "surrogate"),
        (Reply([{"role": "", "content": "a"}]), "has the message"),
        (Reply([{"role": "user", "content": None}]), "has the message"),
        (Reply([{"role": "user", "content": "a", "name": 1}]), "has the message"),
        (Reply("x" * LARGEST_TEXT, state={"a": "b"}), r"returned 1,000,0\d\d characters"),
    ],
)
def test_what_is_no_reply_is_refused_with_the_reason(reply: Any, reason: str) -> None:
    with pytest.raises(WrongAnswerError, match=reason):
        checked_reply(reply, {"near"})


def test_openings() -> None:
    messages = [{"role": "system", "content": ""}, {"role": "user", "content": "x"}]
    assert checked_opening(tuple(messages)) == messages
    assert checked_opening("x" * LARGEST_TEXT) == "x" * LARGEST_TEXT
    assert checked_reply(Reply(done=True))[:3] == ["", None, True]
    for wrong, reason in ((None, "NoneType"), ([], "no message"), ("x" * (LARGEST_TEXT + 1), "1,000,001 characters")):
        with pytest.raises(WrongAnswerError, match=reason):
            checked_opening(wrong)
