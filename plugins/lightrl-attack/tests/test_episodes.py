"""Environments that pay without being played are found, and sound ones are not accused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from lightrl_attack.episodes import attacked_environment

from lightrl import Environment, Prompt, Reply

PROMPTS = [Prompt(id=f"game {number}", text="") for number in range(12)]

SIGNS = ("red", "green", "blue")


class Doors(Environment):
    """A sign says which of three doors leads on, through three rooms; each is worth a third, and a wrong one ends the game."""

    runs = "inline"
    gives_rewards = True

    def __init__(self, weight: float = 1.0) -> None:
        super().__init__(max_turns=3, slices=1, weight=weight)

    def begin(self, prompt: Prompt, seed: int) -> str:
        self.signs, self.room = [(seed >> 5 * room) % 3 for room in range(3)], 0
        return f"door {SIGNS[self.signs[0]]}?"

    def example_turns(self, prompt: Prompt, seed: int) -> Sequence[str]:
        return [str((seed >> 5 * room) % 3) for room in range(3)]

    def right(self, completion: str) -> bool:
        """Whether the completion opens the door."""
        return completion == str(self.signs[self.room])

    def reply(self, completion: str) -> Reply:
        right = self.right(completion)
        self.room += 1
        over = not right or self.room == 3
        return Reply("" if over else f"door {SIGNS[self.signs[self.room]]}?", reward=right / 3, done=over)


class EverythingOpens(Doors):
    """Takes any completion that has the door in it."""

    def right(self, completion: str) -> bool:
        return str(self.signs[self.room]) in completion or "?" in completion


class PaysForTurns(Doors):
    """Pays for being talked to."""

    def reply(self, completion: str) -> Reply:
        self.room += 1
        return Reply("" if self.room == 3 else "go on", reward=1 / 3 if completion else 0.0, done=self.room == 3)


class BelievesIt(Doors):
    """Takes the policy's word that it has won."""

    def right(self, completion: str) -> bool:
        return super().right(completion) or "correct" in completion


class AlwaysTheSame(Doors):
    """One door is right in all games."""

    def begin(self, prompt: Prompt, seed: int) -> str:
        opening = super().begin(prompt, seed)
        self.signs = [1, 1, 1]
        return opening

    def example_turns(self, prompt: Prompt, seed: int) -> Sequence[str]:
        return ["1", "1", "1"]


class Fails(Doors):
    """Raises when it does not know a turn."""

    def reply(self, completion: str) -> Reply:
        int(completion)
        return super().reply(completion)


class Unplayed(Doors):
    """Does not say how it is played."""

    def example_turns(self, prompt: Prompt, seed: int) -> Sequence[str]:
        return ()


def test_a_sound_game_is_not_accused_and_its_example_turns_are_1() -> None:
    said = attacked_environment(Doors(), PROMPTS)
    assert said.own == pytest.approx(1.0)
    assert said.nothing == 0
    assert not [(one.attack.name, one.mean) for one in said.holes]
    # each door is right in the first room of a third of the games
    constant = [one for one in said.earned if one.attack.name in ("always '0'", "always '1'", "always '2'")]
    first_rooms = sum(float((one.totals > 0).sum()) for one in constant)
    assert first_rooms == len(PROMPTS)


@pytest.mark.parametrize(
    ("game", "cheapest"),
    [
        (EverythingOpens, "the opening"),
        (PaysForTurns, "constant turns"),
        (BelievesIt, "words to a judge"),
        (AlwaysTheSame, "constant turns"),
    ],
)
def test_a_game_that_pays_without_being_played_is_found(game: type[Doors], cheapest: str) -> None:
    holes = attacked_environment(game(), PROMPTS).holes
    assert cheapest in {name for one in holes for name in (one.attack.name, one.attack.family)}


def test_an_episode_that_fails_has_no_total() -> None:
    said = attacked_environment(Fails(), PROMPTS)
    by_name = {one.attack.name: one for one in said.earned}
    assert math.isinf(by_name["the empty completion"].mean)
    assert by_name["always '1'"].totals.isfinite().all()


def test_shares_are_of_the_largest_total_where_no_turns_are_known_and_weights_count() -> None:
    said = attacked_environment(Unplayed(weight=2.0), PROMPTS)
    assert said.own is None
    assert said.best == max(float(one.totals.max()) for one in said.earned)
    assert said.best == pytest.approx(round(said.best * 1.5) / 1.5), "a room is worth two thirds"


def test_the_command_plays_an_environment_that_gives_rewards(lightrl: Callable[..., Any], write: Callable[..., Any]) -> None:
    write("config.yaml", {
        "model": {
            "policy": "TinyPolicy", "algorithm": "GRPO", "rewards": None,
            "environment": {"class_path": "FrozenLake", "init_args": {"success_rate": 1.0, "max_turns": 20}},
        },
        "data": {"train": {"class_path": "EpisodeSeeds", "init_args": {"size": 20}}},
    })  # fmt: skip
    answer = lightrl("reward", "attack", "--config", "config.yaml", "--rows", "4", "--json")
    said = json.loads(answer.out)
    assert list(said) == ["environment"]
    assert {"always 'left'", "what was said last"} <= {one["attack"] for one in said["environment"]["attacks"]}
