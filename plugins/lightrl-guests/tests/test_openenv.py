"""Servers of OpenEnv: what is played, and what becomes of each planted failure."""

from __future__ import annotations

import random
import time
from typing import Any

import one_episode
import pytest
from lightrl_guests import OpenEnv
from openenv_server import dummy_server

from lightrl import Prompt
from lightrl.environments.episode_host import EpisodeAnswer, EpisodeHost

EMPTY = Prompt("p", text="")
CHAT = Prompt("p", messages=({"role": "user", "content": "A game. "},), columns={"hint": " It is odd."})


def environment(url: str, **arguments: Any) -> OpenEnv:
    return OpenEnv(url, **{"action": {"number": "{completion}"}, "observation": "{said}", **arguments})


def played(played_on: OpenEnv, *turns: str, prompt: Prompt = EMPTY, seed: int = 7) -> list[EpisodeAnswer]:
    return one_episode.played(played_on, turns, prompt, seed)


def test_an_episode_of_several_turns_is_a_session_with_the_servers_rewards() -> None:
    number = random.Random(7).randint(1, 9)
    with dummy_server() as (url, sessions):
        begun, wrong, right, ended = played(environment(url), str(number - 1), f"<think>9?</think> {number}")
        deadline = time.monotonic() + 5
        while not sessions.ended and time.monotonic() < deadline:
            time.sleep(0.01)
        assert sessions.ended == 1
    assert begun.said == [{"role": "user", "content": "Guess a number from 1 to 9."}]
    assert wrong.reply is not None
    assert (wrong.reply.said, wrong.reply.reward, wrong.reply.done) == ("higher", 0.0, False)
    assert right.reply is not None
    # the second step pays a half
    assert (right.reply.said, right.reply.reward, right.reply.done) == ("right", 0.5, True)
    assert right.reply.state == {"observation": {"said": "right"}}
    assert ended.error is None


def test_what_is_observed_continues_the_prompt_and_columns_go_to_reset() -> None:
    with dummy_server() as (url, _):
        hinted = environment(url, reset={"hint": "{hint}"})
        hinted.check(frozenset({"hint"}))
        assert played(hinted, prompt=CHAT)[0].said == [{"role": "user", "content": "A game. Guess a number from 1 to 9. It is odd."}]
        assert played(environment(url, chat=False))[0].said == "Guess a number from 1 to 9."
        as_json = environment(url, observation=None, chat=False)
        assert played(as_json)[0].said == '{"said": "Guess a number from 1 to 9."}'
        with pytest.raises(ValueError, match="asks for hint, which the data does not have; it has level"):
            hinted.check(frozenset({"level"}))


def test_an_action_that_is_refused_is_told_to_the_policy_and_counted() -> None:
    with dummy_server() as (url, _):
        _, refused, _, _ = played(environment(url), "perhaps seven", "7")
    assert refused.reply is not None
    assert refused.reply.said == "Error: number: should be an integer"
    assert refused.reply.counts == {"refused_actions": 1.0}
    assert not refused.reply.done


def test_the_same_seed_gives_the_same_episode() -> None:
    with dummy_server() as (url, _):
        turns = [str(number) for number in range(1, 10)]
        first, second, other = (
            [(answer.said, answer.reply) for answer in played(environment(url), *turns, seed=seed)] for seed in (3, 3, 1)
        )
    assert first == second != other


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("500", "opens no session: server rejected WebSocket connection: HTTP 500"),
        ("no room", "CAPACITY_REACHED: Server at capacity. The server has room for 1 sessions: start it with max_concurrent_envs"),
        ("reset refused", "refuses reset with {\"seed\": 7}: seed: too large"),
        ("over at once", "has begun an episode that is over"),
        ("hangs up", "ended the session instead of answering step"),
        ("late", "no answer within 0.5 s"),
        ("no JSON", "answers step with no JSON (Expecting value: line 1 column 1 (char 0)): '<html>'"),
        ("a list", "answers step with '[1]', expected a message of the type `observation`"),
        ("another type", "expected a message of the type `observation`"),
        ("no data", "expected a message of the type `observation`"),
        ("no observation", "expected a message of the type `observation`"),
        ("another field", "has no said; it has board"),
        ("execution error", "answers step with EXECUTION_ERROR: division by zero"),
        ("unknown type", "answers step with UNKNOWN_TYPE"),
        ("NaN", "reply().reward is nan, expected a finite number"),
        ("a text as reward", "reply().reward is str '0.5', expected a number"),
        ("a number as done", "reply().done is int 1, expected True or False"),
        ("nothing said", "reply() told the policy nothing"),
        ("nothing told of the error", "answers step with None: no message"),
    ],
)  # fmt: skip
def test_a_server_that_fails_fails_its_episode(fault: str, expected: str) -> None:
    with dummy_server(fault) as (url, _):
        answers = played(environment(url, timeout_s=0.5 if fault == "late" else 10.0), "5", "5")
    errors = [answer.error for answer in answers if answer.error is not None]
    assert len(errors) == 1
    assert expected in errors[0]


def test_a_server_that_dies_fails_its_episode_and_those_after_it() -> None:
    with dummy_server() as (url, _):
        host = EpisodeHost(environment(url))
        host.begin([(0, EMPTY, 1)]).result()
    try:
        (answer,) = host.reply([(0, "5")]).result()
        assert "ended the session" in (answer.error or "")
        (answer,) = host.begin([(1, EMPTY, 1)]).result()
        assert "opens no session" in (answer.error or "")
        assert "Is the server started" in (answer.error or "")
    finally:
        host.close()


def test_a_server_or_an_action_that_cannot_work_is_refused_before_training() -> None:
    with pytest.raises(ValueError, match=r"http://127.0.0.1:9/schema cannot be read.*Is the server started"):
        environment("http://127.0.0.1:9").check(frozenset())
    with dummy_server("no schema") as (url, _), pytest.raises(ValueError, match="cannot be read"):
        environment(url).check(frozenset())
    with dummy_server() as (url, _):
        environment(url).check(frozenset())
        with pytest.raises(ValueError, match=r"has text, and http.* takes number, metadata, of which it needs number"):
            environment(url, action={"text": "{completion}"}).check(frozenset())


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"url": "127.0.0.1:8000"}, "needs the url of a server, such as http://127.0.0.1:8000"),
        ({"action": {"number": 3}}, r"needs an action with \{completion\} in it"),
        ({"timeout_s": 0.0}, "timeout_s"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        OpenEnv(**{"url": "http://127.0.0.1:8000", "action": {"number": "{completion}"}, **arguments})
