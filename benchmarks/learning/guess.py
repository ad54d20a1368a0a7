"""A policy that guesses numbers at random learns to search: warm start, then GRPO over several turns, and a summary of what came of it.

    python -m benchmarks.learning.guess --seed 0 --out runs/guess

The game is TextArena's GuessTheNumber, 1 to 20: secrets, limits, replies and rewards are the package's. The warm start learns games that
were played at random, and so solves less than half. The evaluation plays 2,000 games that no training has seen, 100 of each secret, at
temperature 1. Binary search needs 3.7 guesses.
"""

# ruff: noqa: T201

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from lightrl_gym import TextArena

from benchmarks import config_file
from benchmarks.demo_run import cpu_seconds, write_summary
from benchmarks.learning.games import episodes, learnt, played, seed_and_out, warm_start
from lightrl import Prompt

CONFIG = config_file("grpo_guess")
GAME, OPENING = "GuessTheNumber-v0-raw", "1-20?"
NUMBERS = 20
GAMES = 20_000
"""Games of the warm start."""
STEPS = 4800
"""Optimizer steps of the warm start."""
FRESH = 0.4
"""Probability that a random guess which repeats an earlier one is drawn again; it makes repeated numbers rarer, and uses no hint."""
EACH = 100
"""Games of the evaluation with each secret."""
BOUND = 3.7
"""Mean guesses of binary search."""


class Scores(NamedTuple):
    """The games of an evaluation."""

    guesses: float
    """Mean per game, wrong moves included."""
    solved: float
    """Share of games that were won."""


class ChosenSecret(TextArena):
    """The game whose seed is the prompt's id, so that an evaluation can choose the secrets."""

    runs = "inline"

    def begin(self, prompt: Prompt, seed: int) -> str | list[dict[str, str]]:
        return super().begin(prompt, int(prompt.id))


def main() -> None:
    """Run the demonstration."""
    seed, out = seed_and_out(__doc__, "runs/guess")
    before = cpu_seconds()
    games = played(TextArena(GAME, opening=OPENING, chat=False), random_guess, GAMES, random.Random(seed))
    start = warm_start(out, games, r"\[\d+\]", STEPS, seed)
    policy = learnt(CONFIG, start, out, seed)
    seconds = cpu_seconds() - before
    report(seed, out, evaluate(start, seed), evaluate(policy, seed), seconds)


def random_guess(draw: random.Random, text: str) -> str:
    """Any number, whatever the game has said."""
    numbers = [f"[{number}]" for number in range(1, NUMBERS + 1)]
    guess = draw.choice(numbers)
    if guess in text and draw.random() < FRESH:
        return draw.choice([number for number in numbers if number not in text] or numbers)
    return guess


def evaluate(policy: Path, seed: int) -> Scores:
    """Play games that no training has seen, `EACH` with each secret."""
    found = episodes(policy, ChosenSecret(GAME, opening=OPENING, chat=False), ["]"], [str(chosen) for chosen in seeds_of_secrets()], seed)
    count = NUMBERS * EACH
    return Scores(sum(episode.turns for episode in found) / count, sum(bool(episode.state.get("won")) for episode in found) / count)


def seeds_of_secrets() -> list[int]:
    """Seeds of the package's game, `EACH` for each secret."""
    import textarena

    game = textarena.make(GAME)
    found: Counter[int] = Counter()
    seeds = []
    seed = 0
    while len(seeds) < NUMBERS * EACH:
        game.reset(num_players=1, seed=seed)
        if found[game.game_number] < EACH:
            found[game.game_number] += 1
            seeds.append(seed)
        seed += 1
    return seeds


def report(seed: int, out: Path, start: Scores, final: Scores, seconds: float) -> None:
    """Print the summary, and write it."""
    summary = {
        "seed": seed,
        "start_guesses": round(start.guesses, 3),
        "start_solved": round(start.solved, 4),
        "final_guesses": round(final.guesses, 3),
        "solved": round(final.solved, 4),
        "binary_search": BOUND,
        "train_seconds": round(seconds, 1),
    }
    write_summary(out, summary)
    print(f"means of {NUMBERS * EACH} games at temperature 1, {EACH} of each secret; seconds of processor time, warm start included")


if __name__ == "__main__":
    main()
