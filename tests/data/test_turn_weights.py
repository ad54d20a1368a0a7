"""Messages say what they weigh."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lightrl import JsonLines
from lightrl.text.turns import TURN_WEIGHTS


def source(tmp_path: Path, *messages: dict[str, Any], **arguments: Any) -> JsonLines:
    path = tmp_path / "talks.jsonl"
    path.write_text(json.dumps({"messages": list(messages)}) + "\n")
    return JsonLines(str(path), prompt="messages", answer=None, **arguments)


def user(**keys: Any) -> dict[str, Any]:
    return {"role": "user", "content": "hello", **keys}


def assistant(**keys: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": "hi", **keys}


def test_weights_stand_beside_the_messages_and_change_no_id(tmp_path: Path) -> None:
    plain = source(tmp_path, user(), assistant(), user(), assistant()).prompt(0)
    assert plain.meta == {}
    weighed = source(tmp_path, user(train=False), assistant(train=False), user(weight=None), assistant(weight=0.5, train=None)).prompt(0)
    assert weighed.meta == {TURN_WEIGHTS: [0.0, 0.0, None, 0.5]}
    assert (weighed.id, weighed.messages) == (plain.id, plain.messages)
    with_system = source(tmp_path, user(), assistant(train=False), user(), assistant(), system="Be kind.").prompt(0)
    assert with_system.meta == {TURN_WEIGHTS: [None, None, 0.0, None, None]}


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (assistant(train="no"), "message 2: train must be true or false, got 'no'"),
        (assistant(train=1), "message 2: train must be true or false, got 1"),
        (assistant(weight=-1), "message 2: weight must be a finite number of 0 or more, got -1"),
        (assistant(weight=True), "message 2: weight must be a finite number of 0 or more, got True"),
        (assistant(weight=1, train=True), "message 2 has both train and weight"),
        (user(train=True), "message 2 is the user's and cannot be learnt on its own"),
    ],
)
def test_what_is_no_weight_is_named_with_its_line(tmp_path: Path, message: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=rf"talks.jsonl:1: column 'messages': {words}"):
        source(tmp_path, user(), message)
