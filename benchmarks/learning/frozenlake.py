"""A policy that walks on a frozen lake at random learns to reach the goal: warm start, then GRPO, and a summary beside the best walk.

    python -m benchmarks.learning.frozenlake --seed 0 --out runs/frozenlake

The game is Gymnasium's FrozenLake-v1 on its map of 4 x 4, where a move goes where it should eight times in ten, with at most 20 moves. The
warm start learns walks whose moves were drawn at random. The evaluation plays 10,000 games that no training has seen, at temperature 1.
Value iteration over the game's own table of transitions gives the largest share of games that any policy can win within the moves.
"""

# ruff: noqa: T201

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from lightrl_gym import FrozenLake

from benchmarks import config_file
from benchmarks.demo_run import cpu_seconds, write_summary
from benchmarks.learning.games import episodes, learnt, mean_and_error, played, seed_and_out, warm_start
from lightrl.prompt import Episode

CONFIG = config_file("grpo_frozen_lake")
MOVES = list(FrozenLake.actions)
SUCCESS_RATE, MAX_TURNS = 0.8, 20
"""Probability that a move goes where it should, and most moves of a game."""
WALKS = 10_000
"""Games of the warm start."""
STEPS = 600
"""Optimizer steps of the warm start."""
EVALUATED = 10_000
"""Games of an evaluation."""
Table = Mapping[int, Mapping[int, Sequence[tuple[float, int, float, bool]]]]
"""By cell and action, what may happen: probability, next cell, reward, and whether the game is over."""


class Cell(NamedTuple):
    """What a cell is worth under the best play."""

    value: float
    """Probability of reaching the goal."""
    actions: frozenset[int]
    """Those that reach it with this probability."""


class Scores(NamedTuple):
    """The games of an evaluation."""

    reached: float
    """Share that ended at the goal."""
    error: float
    """Standard error of that share."""
    best_moves: float
    """Share of the moves that value iteration would have made too."""


def main() -> None:
    """Run the demonstration."""
    seed, out = seed_and_out(__doc__, "runs/frozenlake")
    before = cpu_seconds()
    walks = played(game(), lambda draw, _: draw.choice(MOVES), WALKS, random.Random(seed))
    start = warm_start(out, walks, "|".join(MOVES), STEPS, seed)
    policy = learnt(CONFIG, start, out, seed)
    seconds = cpu_seconds() - before
    best = best_play(transitions(), MAX_TURNS)
    first, last = (evaluate(chosen, best, seed) for chosen in (start, policy))
    write_summary(
        out,
        {
            "seed": seed,
            "start_reached": round(first.reached, 4),
            "final_reached": round(last.reached, 4),
            "standard_error": round(last.error, 4),
            "value_iteration": round(best[MAX_TURNS][0].value, 4),
            "start_best_moves": round(first.best_moves, 4),
            "best_moves": round(last.best_moves, 4),
            "train_seconds": round(seconds, 1),
        },
    )
    print(f"means of {EVALUATED} games at temperature 1; seconds of processor time, warm start included")


def game() -> FrozenLake:
    """The game as the config has it."""
    return FrozenLake(success_rate=SUCCESS_RATE, max_turns=MAX_TURNS, opening="", chat=False, wrong_ends=True)


def transitions() -> Table:
    """What the game itself draws from."""
    from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv

    return FrozenLakeEnv(map_name="4x4", is_slippery=True, success_rate=SUCCESS_RATE).P


def best_play(table: Table, moves: int) -> list[dict[int, Cell]]:
    """What each cell is worth, by the number of moves that are left.

    Args:
        table: of the game.
        moves: the most that may be left.
    """
    left = [dict.fromkeys(table, Cell(0.0, frozenset()))]
    for _ in range(moves):
        worth = {
            cell: {
                action: sum(chance * (reward + (0.0 if over else left[-1][to].value)) for chance, to, reward, over in happens)
                for action, happens in actions.items()
            }
            for cell, actions in table.items()
        }
        left.append({cell: _best(values) for cell, values in worth.items()})
    return left


def _best(values: Mapping[int, float]) -> Cell:
    value = max(values.values())
    return Cell(value, frozenset(action for action, one in values.items() if one > value - 1e-12))


def evaluate(policy: Path, best: Sequence[Mapping[int, Cell]], seed: int) -> Scores:
    """Play games that no training has seen."""
    found = episodes(policy, game(), MOVES, [f"evaluation {number}" for number in range(EVALUATED)], seed)
    reached, error = mean_and_error([float(bool(episode.state.get("won"))) for episode in found])
    right = [action in best[moves][cell].actions for episode in found for moves, cell, action in moves_of(episode)]
    return Scores(reached, error, sum(right) / len(right))


def moves_of(episode: Episode) -> list[tuple[int, int, int | None]]:
    """Each move of a game: how many were left, from which cell, and which action; None: what was said names none."""
    pairs = zip(episode.messages[::2], episode.messages[1::2], strict=False)
    return [
        (MAX_TURNS - number, shown["content"].replace("\n", "").index("P"), FrozenLake.actions.get(said["content"]))
        for number, (shown, said) in enumerate(pairs)
    ]


if __name__ == "__main__":
    main()
