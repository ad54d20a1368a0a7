"""Task sets of verifiers: what is played, and what becomes of each planted failure."""

from __future__ import annotations

from typing import Any

import pytest
from one_episode import played

from lightrl import Prompt
from lightrl.environments.episode_host import EpisodeAnswer

pytest.importorskip("verifiers")

from lightrl_guests import VerifiersEnvironment

FIRST = Prompt("1", text="")


def environment(fault: str = "", runs: str = "inline", **arguments: Any) -> VerifiersEnvironment:
    made = VerifiersEnvironment("planted_verifiers", {"taskset": {"fault": fault}}, **arguments)
    made.runs = runs
    return made


def answers(fault: str = "", *turns: str, prompt: Prompt = FIRST, seed: int = 3, **arguments: Any) -> list[EpisodeAnswer]:
    return played(environment(fault, **arguments), turns or ("word1", "word1"), prompt, seed)


def test_an_episode_has_the_turns_of_the_environment_and_the_reward_of_the_task() -> None:
    begun, first, last, ended = answers("", "what?", "<think>word2?</think> word1")
    assert begun.said == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Say word1."}]
    assert first.reply is not None
    assert last.reply is not None
    ((role, said),) = [tuple(message.values()) for message in first.reply.said]
    assert (role, said[:6], first.reply.reward, first.reply.done) == ("user", "again ", None, False)
    # a right last reply is worth 1, with the weight 0.5
    assert (last.reply.reward, last.reply.done) == (0.5, True)
    assert last.reply.state == {"rewards": {"right": 0.5}, "metrics": {"length": 5.0}, "stop": "user_closed"}
    assert ended.error is None


def test_the_same_seed_gives_the_same_episode() -> None:
    same, again, other = ([answer.reply for answer in answers(seed=seed)] for seed in (3, 3, 4))
    assert same == again != other


def test_the_task_is_that_of_the_column_or_else_of_the_id() -> None:
    for prompt in (Prompt("x", text="", columns={"task": 2}), Prompt("2", text="")):
        assert answers(prompt=prompt)[0].said[1]["content"] == "Say word2."


def test_the_last_turn_that_is_allowed_is_scored() -> None:
    _, last, _ = answers("", "word1", max_turns=1)
    assert last.reply is not None
    assert (last.reply.reward, last.reply.done) == (0.5, True)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("setup raises", "TaskError: task setup: RuntimeError: no room"),
        ("run raises", "EnvError: EchoEnv.run(): RuntimeError: the door is stuck"),
        ("turn raises", "EnvError: EchoEnv.run(): RuntimeError: the line is dead"),
        ("no agent", "ran no agent"),
        ("finalize raises", "TaskError: task finalize: RuntimeError: cannot tidy up"),
        ("reward raises", "TaskError: task EchoTask scoring: RuntimeError: no answer key"),
        ("metric raises", "TaskError: task EchoTask scoring: RuntimeError: cannot count"),
        ("reward a text", "could not convert string to float: '0.5 or so'"),
        ("reward None", "not 'NoneType'"),
        ("reward NaN", "reply().reward is nan, expected a finite number"),
        ("reward infinite", "reply().reward is inf, expected a finite number"),
        ("no reward", "EchoTask has no reward: write a method of it with @vf.reward"),
        ("rewrites", "has rewritten what was said"),
        ("plays twice", "has rewritten what was said"),
    ],
)
def test_an_environment_that_fails_fails_its_episode(fault: str, expected: str) -> None:
    errors = [answer.error for answer in answers(fault, "word1", "word1", "word1") if answer.error is not None]
    assert len(errors) == 1
    assert expected in errors[0]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("fault", "expected"), [("turn late", "no answer within"), ("reward late", "no answer within"), ("dies", "died: exit status 1")]
)
def test_a_call_that_takes_too_long_or_ends_its_process_fails_its_episode(fault: str, expected: str) -> None:
    errors = [answer.error for answer in answers(fault, runs="process", timeout_s=2.0, workers=1) if answer.error is not None]
    assert errors
    assert expected in errors[0]


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [(Prompt("9", text=""), "planted_verifiers has 4 tasks, and none of the number 9"), (Prompt("x", text=""), "names no task")],
)
def test_a_prompt_without_a_task_fails_its_episode(prompt: Prompt, expected: str) -> None:
    assert expected in (answers(prompt=prompt)[0].error or "")


@pytest.mark.parametrize(
    ("taskset", "config", "expected"),
    [
        ("no_such_tasks", {}, "cannot be loaded: taskset 'no_such_tasks' not found"),
        ("planted_verifiers", {"taskset": {"sizes": 3}}, "sizes"),
        ("planted_verifiers", {"id": "user_sim"}, "has the agents assistant, user, and a policy can play one that is alone"),
    ],
)
def test_a_task_set_that_cannot_be_played_is_refused(taskset: str, config: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        VerifiersEnvironment(taskset, config)
