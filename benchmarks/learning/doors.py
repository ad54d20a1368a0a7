"""A policy of random weights learns a game of a server of OpenEnv: GRPO over several turns, and a summary of what came of it.

    OPENENV_PYTHON=/path/to/python python -m benchmarks.learning.doors --seed 0 --out runs/doors

The game is `lightrl_guests/examples/doors.py`, which is served on this machine by the Python of the variable, with `openenv` in it; without
the variable, by the own one. A sign says which of six doors leads on, through four rooms. The policy reads the sign and says a number, and
each is one token to it. The evaluation plays 2,000 games that no training has seen, at temperature 1.
"""

# ruff: noqa: T201

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lightrl_guests import OpenEnv, examples

from benchmarks import config_file
from benchmarks.demo_run import cpu_seconds, write_summary
from benchmarks.learning.games import learnt, mean_reward, seed_and_out
from benchmarks.learning.random_policy import write_word_policy

CONFIG = config_file("grpo_doors")
SERVER = Path(str(examples.__file__)).parent / "doors.py"
DOORS = [str(number) for number in range(1, 7)]
SAID = "red: blue: green: white: black: pink: Error: door: Input should be a valid integer, unable to parse string as an integer"
GAMES, AT_ONCE = 2000, 256
RANDOM, BOUND = 0.05, 1.0
"""Mean rewards of doors that are drawn, (1/6 + 1/6^2 + 1/6^3 + 1/6^4) / 4, and of the right ones."""


def main() -> None:
    """Run the demonstration."""
    seed, out = seed_and_out(__doc__, "runs/doors")
    before = cpu_seconds()
    start = out / "start"
    write_word_policy(start, DOORS, SAID, seed)
    with served() as url:
        policy = learnt(CONFIG, start, out, seed, "--model.environment.url", url)
        seconds = cpu_seconds() - before
        first, last = held_out(url, start, seed), held_out(url, policy, seed)
    summary = {
        "seed": seed,
        "start_reward": round(first, 3),
        "final_reward": round(last, 3),
        "random_doors": RANDOM,
        "best": BOUND,
        "train_seconds": round(seconds, 1),
    }
    write_summary(out, summary)
    print(f"means of {GAMES} games at temperature 1; seconds of processor time of the training, not of the server")


@contextmanager
def served() -> Iterator[str]:
    """The url of a server of the game."""
    python = os.environ.get("OPENENV_PYTHON", sys.executable)
    server = subprocess.Popen([python, str(SERVER), "--sessions", str(4 * AT_ONCE)], stdout=subprocess.PIPE, text=True)
    try:
        url = server.stdout.readline().strip() if server.stdout else ""
        if not url:
            raise SystemExit(f"{python} has not served {SERVER}: `pip install openenv` there, or set OPENENV_PYTHON to one that has it")
        yield url
    finally:
        server.terminate()
        server.wait()


def held_out(url: str, policy: Path, seed: int) -> float:
    """The mean reward in games that no training has seen."""
    game = OpenEnv(url, {"door": "{completion}"}, observation="{sign}:", chat=False, max_turns=4)
    return mean_reward(policy, game, DOORS, [f"held out {number}" for number in range(GAMES)], seed, AT_ONCE)


if __name__ == "__main__":
    main()
