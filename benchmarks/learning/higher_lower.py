"""A policy of random weights learns a game that is written for TRL: GRPO over several turns, and a summary of what came of it.

    python -m benchmarks.learning.higher_lower --seed 0 --out runs/higher_lower

The class is `lightrl_guests.higher_lower.HigherLower`, which imports nothing of lightrl: a number from 1 to 3, and two guesses. To the
policy each call is one token, and so is each word that the game says: random weights then call now and then. The evaluation plays 2,000
games that no training has seen, at temperature 1.
"""

# ruff: noqa: T201

from __future__ import annotations

import statistics
from pathlib import Path

from lightrl_guests import TRLEnvironment

from benchmarks import config_file
from benchmarks.demo_run import cpu_seconds, write_summary
from benchmarks.learning.games import episodes, learnt, seed_and_out
from benchmarks.learning.random_policy import write_word_policy

CONFIG = config_file("grpo_higher_lower")
LARGEST, COST, TURNS = 3, 0.0, 2
CALLS = [f"[guess({number})]" for number in range(1, LARGEST + 1)]
SAID = "Guess a number from 1 to 3. higher; lower; right; Error: ValueError: the game is over;"
GAMES = 2000
BLIND, BOUND = 0.667, 1.0
"""Mean rewards without hints and without repetition, 2 guesses of 3, and of binary search."""


def main() -> None:
    """Run the demonstration."""
    seed, out = seed_and_out(__doc__, "runs/higher_lower")
    before = cpu_seconds()
    start = out / "start"
    write_word_policy(start, CALLS, SAID, seed)
    policy = learnt(CONFIG, start, out, seed)
    seconds = cpu_seconds() - before
    summary = {
        "seed": seed,
        "start_reward": round(mean_reward(start, seed), 3),
        "final_reward": round(mean_reward(policy, seed), 3),
        "no_hints": BLIND,
        "binary_search": BOUND,
        "train_seconds": round(seconds, 1),
    }
    write_summary(out, summary)
    print(f"means of {GAMES} games at temperature 1; seconds of processor time")


def mean_reward(policy: Path, seed: int) -> float:
    """Play games that no training has seen."""
    game = TRLEnvironment(
        "lightrl_guests.higher_lower.HigherLower",
        arguments={"largest": LARGEST, "cost": COST},
        call_format="python",
        response=" {result};",
        chat=False,
        max_turns=TURNS,
    )
    game.runs = "inline"
    found = episodes(policy, game, [")]"], [f"held out {number}" for number in range(GAMES)], seed)
    return statistics.fmean(sum(reward or 0.0 for reward in episode.rewards) for episode in found)


if __name__ == "__main__":
    main()
