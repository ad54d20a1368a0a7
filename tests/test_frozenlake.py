"""`make learn TASK=frozenlake`: its optimum, and that it plays the game of its config."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.learning import frozenlake as lake
from lightrl.config.build.builder import Builder
from lightrl.config.merge.resolve import resolve
from lightrl.config.read.settings import read_words

ROOT = Path(__file__).parents[1]
LEFT, DOWN, RIGHT, UP = range(4)


def test_the_best_play_waits_where_that_is_safer_and_hurries_where_it_must() -> None:
    # cell 0: action 0 reaches the goal in half of the cases and else ends in the hole; action 1 leads to cell 1, whose action 0 is certain
    goal, hole = (2, 1.0, True), (3, 0.0, True)
    table = {
        0: {0: [(0.5, *goal), (0.5, *hole)], 1: [(1.0, 1, 0.0, False)]},
        1: {0: [(1.0, *goal)], 1: [(1.0, *hole)]},
        2: {0: [(1.0, 2, 0.0, True)], 1: [(1.0, 2, 0.0, True)]},
        3: {0: [(1.0, 3, 0.0, True)], 1: [(1.0, 3, 0.0, True)]},
    }
    best = lake.best_play(table, 2)
    assert [best[moves][0] for moves in (0, 1, 2)] == [(0.0, set()), (0.5, {0}), (1.0, {1})]
    # nothing is left to gain in the hole
    assert best[2][3] == (0.0, {0, 1})


def test_without_slips_the_goal_is_six_moves_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake, "SUCCESS_RATE", 1.0)
    best = lake.best_play(lake.transitions(), 7)
    assert [best[moves][0].value for moves in (5, 6)] == [0.0, 1.0]
    # both begin a shortest way
    assert best[6][0].actions == {DOWN, RIGHT}


def test_the_optimum_on_slippery_ice_is_the_known_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake, "SUCCESS_RATE", 1 / 3)
    # 0.74 within the 100 steps of Gymnasium
    assert lake.best_play(lake.transitions(), 100)[100][0].value == pytest.approx(0.744, abs=5e-4)


def test_the_evaluation_plays_the_game_of_the_config() -> None:
    resolved = resolve("fit", read_words(["--config", str(lake.CONFIG)]))
    learnt: Any = Builder().build(resolved.model.value("environment"), "model.environment")
    played = lake.game()
    for name in ("map_name", "random_size", "is_slippery", "success_rate", "max_turns", "opening", "chat", "wrong_ends", "wrong_reward"):
        assert getattr(learnt, name) == getattr(played, name), name


def test_the_moves_of_a_game_are_read_from_what_was_shown_and_said() -> None:
    from lightrl import Prompt
    from lightrl.prompt import Episode

    game = lake.game()
    shown = str(game.begin(Prompt(id="a", text=""), 3))
    messages = [{"role": "user", "content": shown}, {"role": "assistant", "content": "down"}]
    reply = game.reply("down")
    messages += [{"role": "user", "content": str(reply.said)}, {"role": "assistant", "content": "jump"}]
    first, second = lake.moves_of(Episode(tuple(messages), turns=2))
    assert first == (20, 0, DOWN)
    assert (second[0], second[2]) == (19, None)
    assert second[1] in (0, 1, 4)
