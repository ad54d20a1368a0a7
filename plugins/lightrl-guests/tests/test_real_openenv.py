"""Episodes of `OpenEnv` on a server of the real package."""

from __future__ import annotations

import random
from typing import Any

import pytest
from lightrl_guests import OpenEnv
from one_episode import played

from lightrl import Prompt
from lightrl.environments.episode_host import EpisodeAnswer

SIGNS = ("red", "blue", "green", "white", "black", "pink")
ROOMS = random.Random(7).choices(SIGNS, k=4)
DOORS = tuple(str(1 + SIGNS.index(sign)) for sign in ROOMS)


def walked(url: str, *doors: str, fault: str = "", **arguments: Any) -> list[EpisodeAnswer]:
    game = OpenEnv(url, {"door": "{completion}"}, reset={"fault": fault}, chat=False, **arguments)
    game.check(frozenset())
    return played(game, doors, Prompt("p", text="Walk. "), 7)


def test_the_right_doors_earn_everything(real_openenv: str) -> None:
    begun, *turns, ended = walked(real_openenv, *DOORS, observation="{sign}:")
    replies = [turn.reply for turn in turns if turn.reply is not None]
    assert begun.said == f"Walk. {ROOMS[0]}:"
    assert [reply.said for reply in replies] == [f"{sign}:" for sign in (*ROOMS[1:], "end")]
    assert [reply.reward for reply in replies] == [0.25] * 4
    assert [reply.done for reply in replies] == [False, False, False, True]
    assert ended.error is None


def test_without_a_template_the_policy_reads_the_fields_of_the_environment_alone(real_openenv: str) -> None:
    begun, turn, _ = walked(real_openenv, DOORS[0], fault="metadata")
    assert begun.said == f'Walk. {{"sign": "{ROOMS[0]}"}}'
    assert turn.reply is not None
    assert turn.reply.said == f'{{"sign": "{ROOMS[1]}"}}'


@pytest.mark.parametrize(
    ("door", "told"),
    [("9", "Error: door: Input should be less than or equal to 6"), ("left", "Error: door: Input should be a valid integer")],
)
def test_an_action_of_another_form_is_told_to_the_policy_and_the_game_goes_on(door: str, told: str, real_openenv: str) -> None:
    _, refused, right, _ = walked(real_openenv, door, DOORS[0])
    assert refused.reply is not None
    assert str(refused.reply.said).startswith(told)
    assert refused.reply.counts == {"refused_actions": 1.0}
    assert right.reply is not None
    assert right.reply.reward == 0.25


@pytest.mark.parametrize(
    ("fault", "door", "expected"),
    [
        ("reset raises", "1", "answers reset with EXECUTION_ERROR: the house is locked"),
        ("step raises", "1", "answers step with EXECUTION_ERROR: the key broke"),
        ("no sign", "1", "answers step with VALIDATION_ERROR: sign: Field required"),
        ("", "6", "let that of the action raise pydantic_core.PydanticCustomError"),
        ("late", "1", "no answer within 0.5 s"),
    ],
)
def test_a_server_that_fails_fails_its_episode(fault: str, door: str, expected: str, real_openenv: str) -> None:
    errors = [answer.error for answer in walked(real_openenv, door, fault=fault, timeout_s=0.5) if answer.error is not None]
    assert len(errors) == 1
    assert expected in errors[0]
