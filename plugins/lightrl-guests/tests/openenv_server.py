"""A dummy server of OpenEnv, with a game and faults. It has /schema and /health, and a session for each WebSocket."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

SCHEMA = {"action": {"properties": {"number": {"type": "integer"}, "metadata": {"type": "object"}}, "required": ["number"]}}


def observed(reward: Any = None, done: Any = False, **observation: Any) -> str:
    return json.dumps({"type": "observation", "data": {"observation": observation, "reward": reward, "done": done}})


def refused(code: str, message: str, **more: Any) -> str:
    return json.dumps({"type": "error", "data": {"message": message, "code": code, **more}})


ANSWERS = {
    "no JSON": "<html>",
    "a list": "[1]",
    "another type": json.dumps({"type": "state", "data": {}}),
    "no data": json.dumps({"type": "observation"}),
    "no observation": json.dumps({"type": "observation", "data": {"reward": 1.0}}),
    "another field": observed(board="x"),
    "execution error": refused("EXECUTION_ERROR", "division by zero"),
    "unknown type": refused("UNKNOWN_TYPE", "Unknown message type: step"),
    "NaN": observed(float("nan"), True, said="right"),
    "a text as reward": observed("0.5", True, said="right"),
    "a number as done": observed(0.5, 1, said="right"),
    "nothing said": observed(said=""),
    "nothing told of the error": json.dumps({"type": "error", "data": None}),
}
"""Answers to the first step that are wrong, by what is wrong."""


class Sessions:
    """Plays the game on each WebSocket, with one fault in it."""

    def __init__(self, fault: str = "", largest: int = 9) -> None:
        self.fault, self.largest = fault, largest
        self.ended = 0
        self.open: list[ServerConnection] = []

    def page(self, connection: ServerConnection, request: Request) -> Response | None:
        if request.path == "/ws":
            return connection.respond(HTTPStatus.INTERNAL_SERVER_ERROR, "down") if self.fault == "500" else None
        pages = {"/schema": "[" if self.fault == "no schema" else json.dumps(SCHEMA), "/health": '{"status": "healthy"}'}
        found = pages.get(request.path)
        return connection.respond(HTTPStatus.NOT_FOUND if found is None else HTTPStatus.OK, found or "")

    def session(self, socket: ServerConnection) -> None:
        if self.fault == "no room":
            socket.send(refused("CAPACITY_REACHED", "Server at capacity", active_sessions=1, max_sessions=1))
            return
        number, steps = 0, 0
        self.open.append(socket)
        try:
            for text in socket:
                message = json.loads(text)
                if message["type"] == "reset":
                    number = random.Random(message["data"]["seed"]).randint(1, self.largest)
                    socket.send(self.begun(message["data"]))
                    continue
                steps += 1
                if self.fault == "hangs up":
                    return
                if self.fault == "late":
                    time.sleep(3)
                socket.send(ANSWERS.get(self.fault) or self.step(number, message["data"]["number"], steps))
        except ConnectionClosed:
            return
        finally:
            self.ended += 1

    def begun(self, data: dict[str, Any]) -> str:
        if self.fault == "reset refused":
            return refused("VALIDATION_ERROR", "Invalid message", errors=[{"loc": ["seed"], "msg": "too large"}])
        return observed(done=self.fault == "over at once", said=f"Guess a number from 1 to {self.largest}.{data.get('hint', '')}")

    def step(self, number: int, guess: Any, steps: int) -> str:
        try:
            guess = int(guess)
        except ValueError:
            return refused("VALIDATION_ERROR", "Invalid message", errors=[{"loc": ["number"], "msg": "should be an integer"}])
        if guess == number:
            return observed(1.0 / steps, True, said="right")
        return observed(0.0, False, said="higher" if guess < number else "lower")


@contextmanager
def dummy_server(fault: str = "", **arguments: Any) -> Iterator[tuple[str, Sessions]]:
    """The url of a server, and its sessions."""
    sessions = Sessions(fault, **arguments)
    with serve(sessions.session, "127.0.0.1", 0, process_request=sessions.page, close_timeout=1) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.socket.getsockname()[1]}", sessions
        finally:
            for socket in sessions.open:
                socket.close()
