"""A game as a server of OpenEnv, as an example: it imports nothing of lightrl, and runs in any Python that has `openenv`.

python doors.py --port 8000 --sessions 256
"""

from __future__ import annotations

import argparse
import random
import socket
from typing import Any

import uvicorn
from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app
from pydantic import Field

SIGNS = ("red", "blue", "green", "white", "black", "pink")
"""The sign of a room says which of its doors leads on: that of the same place in this list, from 1."""
ROOMS = 4


class Opened(Action):
    """A door."""

    door: int = Field(ge=1, le=len(SIGNS))


class Seen(Observation):
    """The sign of a room."""

    sign: str


class Doors(Environment[Opened, Seen, State]):
    """Walk through four rooms; the right door of a room is worth a quarter, and any other one ends the game."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Seen:
        """Begin in the first room."""
        self._signs = random.Random(seed).choices(SIGNS, k=ROOMS)
        self._state = State(episode_id=episode_id, step_count=0)
        return Seen(sign=self._signs[0])

    def step(self, action: Opened, timeout_s: float | None = None, **kwargs: Any) -> Seen:
        """Open a door."""
        right = SIGNS[action.door - 1] == self._signs[self._state.step_count]
        self._state.step_count += 1
        over = not right or self._state.step_count == ROOMS
        return Seen(sign="end" if over else self._signs[self._state.step_count], reward=right / ROOMS, done=over)

    @property
    def state(self) -> State:
        """How many doors were opened."""
        return self._state


def main(game: type[Doors] = Doors, action: type[Opened] = Opened) -> None:
    """Serve a game on this machine, and print where."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 for one that is free")
    parser.add_argument("--sessions", type=int, default=256, help="most games at a time")
    arguments = parser.parse_args()
    app = create_fastapi_app(game, action, Seen, max_concurrent_envs=arguments.sessions)
    with socket.create_server(("127.0.0.1", arguments.port)) as listening:
        print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)  # noqa: T201
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])


if __name__ == "__main__":
    main()
