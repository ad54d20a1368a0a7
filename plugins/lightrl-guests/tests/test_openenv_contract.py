"""The messages that sessions rely on, asked from the real OpenEnv; a failing test says what has changed."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from websockets.sync.client import connect

RESET = ("reset", {"seed": 7})
Messages = list[dict[str, Any]]


def faulty(fault: str) -> tuple[str, dict[str, Any]]:
    return "reset", {"seed": 7, "fault": fault}


def step(door: object) -> tuple[str, dict[str, Any]]:
    return "step", {"door": door}


def code(message: dict[str, Any]) -> object:
    return message["data"]["code"] if message["type"] == "error" else None


PROTOCOL: dict[str, tuple[list[tuple[str, dict[str, Any]]], Callable[[Messages], bool]]] = {
    "`reset` is answered by an observation, not done": (
        [RESET],
        lambda said: said[0]["type"] == "observation" and said[0]["data"]["done"] is False,
    ),
    "the fields of an observation stand in `data.observation`": ([RESET], lambda said: "sign" in said[0]["data"]["observation"]),
    "reward and end stand beside the observation, not in it": (
        [RESET, step(2)],
        lambda said: (
            (said[1]["data"]["reward"], said[1]["data"]["done"]) == (0.25, False)
            and not {"reward", "done"} & set(said[1]["data"]["observation"])
        ),
    ),
    "`reset` gets `seed`": ([RESET, ("reset", {"seed": 9})], lambda said: said[0] != said[1]),
    "`reset` gets further arguments by name": ([faulty("reset raises")], lambda said: code(said[0]) == "EXECUTION_ERROR"),
    "`reset` drops arguments that the environment does not take": (
        [("reset", {"seed": 7, "unheard": 1}), RESET],
        lambda said: said[0] == said[1],
    ),
    "a session can be reset": ([RESET, step(1), RESET], lambda said: said[0] == said[2]),
    "an action of another form is a VALIDATION_ERROR, and the session goes on": (
        [RESET, step("x"), step(2)],
        lambda said: code(said[1]) == "VALIDATION_ERROR" and said[2]["data"]["reward"] == 0.25,
    ),
    "a VALIDATION_ERROR lists `errors` with `loc` and `msg`": (
        [RESET, step(9)],
        lambda said: [(one["loc"], type(one["msg"])) for one in said[1]["data"]["errors"]] == [(["door"], str)],
    ),
    "an observation of another form is a VALIDATION_ERROR too": (
        [faulty("no sign"), step(2)],
        lambda said: code(said[1]) == "VALIDATION_ERROR" and said[1]["data"]["errors"][0]["loc"] == ["sign"],
    ),
    "an exception of `step` is an EXECUTION_ERROR with its message": (
        [faulty("step raises"), step(2)],
        lambda said: code(said[1]) == "EXECUTION_ERROR" and said[1]["data"]["message"] == "the key broke",
    ),
    "a message of another type is UNKNOWN_TYPE": ([("jump", {})], lambda said: code(said[0]) == "UNKNOWN_TYPE"),
    "the ValueError of a validator is a SESSION_ERROR that says it cannot be sent": (
        [RESET, step(6)],
        lambda said: code(said[1]) == "SESSION_ERROR" and "Unable to serialize unknown type: <class 'ValueError'>" in str(said[1]),
    ),
}
"""What is relied on, the messages of a session, and how its answers show it."""


@pytest.mark.parametrize("what", PROTOCOL)
def test_openenv_still_has_the_messages_that_sessions_rely_on(what: str, real_openenv: str) -> None:
    sent, holds = PROTOCOL[what]
    said = []
    with connect(f"ws{real_openenv.removeprefix('http')}/ws", proxy=None) as socket:
        for kind, data in sent:
            socket.send(json.dumps({"type": kind, "data": data}))
            said.append(json.loads(socket.recv(timeout=10)))
    assert holds(said), f"OpenEnv has changed: {what}. It answers {said}"


def test_the_schema_still_says_which_fields_an_action_has(real_openenv: str) -> None:
    with urllib.request.urlopen(f"{real_openenv}/schema") as answer:
        action = json.load(answer)["action"]
    assert (set(action["properties"]), action["required"]) == ({"door", "metadata"}, ["door"]), f"OpenEnv has changed, in /schema: {action}"


def test_a_server_without_room_still_says_so_unasked(real_openenv: str) -> None:
    address = f"ws{real_openenv.removeprefix('http')}/ws"
    with ExitStack() as open_ones:
        for _ in range(2):
            socket = open_ones.enter_context(connect(address, proxy=None))
            socket.send(json.dumps({"type": "reset", "data": {}}))
            socket.recv(timeout=10)
        with connect(address, proxy=None) as late:
            said = json.loads(late.recv(timeout=10))
    data = said["data"]
    assert (said["type"], data["code"], data["max_sessions"]) == ("error", "CAPACITY_REACHED", 2), f"OpenEnv has changed: it says {said}"
