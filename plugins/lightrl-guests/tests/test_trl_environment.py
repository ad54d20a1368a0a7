"""Classes of TRL's form, unchanged: what the policy is told and earns, and what becomes of each planted failure."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import one_episode
import pytest
from lightrl_guests import TRLEnvironment
from lightrl_workshop import BrokenContract, class_cases

from lightrl import Prompt
from lightrl.environments.episode_host import EpisodeAnswer, EpisodeHost

CHAT = Prompt("p", messages=({"role": "user", "content": "Do what you can. "},), columns={"stock": {"tea": 3, "salt": 1}}, answer="4")
TEXT = Prompt("p", text="Do what you can. ", columns={"stock": {"tea": 3, "salt": 1}})


def call(name: str, /, **arguments: Any) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def played(environment: TRLEnvironment, *turns: str, prompt: Prompt = CHAT, seed: int = 7, runs: str = "inline") -> list[EpisodeAnswer]:
    environment.runs = runs  # type: ignore[assignment]
    return one_episode.played(environment, turns, prompt, seed)


def planted(name: str, **arguments: Any) -> TRLEnvironment:
    return TRLEnvironment(f"planted_guests.{name}", **arguments)


def told(answer: EpisodeAnswer) -> str:
    """The text of the one message in a reply."""
    assert answer.reply is not None
    assert not isinstance(answer.reply.said, str)
    (message,) = answer.reply.said
    return str(message["content"])


def test_an_episode_of_several_turns_is_told_and_rewarded_as_the_class_says() -> None:
    begun, first, second, last, ended = played(
        planted("Shop"), call("buy", item="tea", count=2), call("ask"), "That is all.", "never asked"
    )
    assert begun.said == [{"role": "user", "content": "Do what you can. Hello. There are: tea, salt."}]
    assert (told(first), told(second)) == ("1 left", '{"tea": 1, "salt": 1}')
    assert last.reply is not None
    # two were sold, for a quarter each
    assert (last.reply.reward, last.reply.done) == (0.5, True)
    assert [answer.reply.reward for answer in (first, second) if answer.reply is not None] == [None, None]
    assert [made["name"] for made in last.reply.state["calls"]] == ["buy", "ask"] if last.reply.state else False
    assert ended.error is None


def test_tools_are_those_of_trl_in_its_order() -> None:
    assert [schema["function"]["name"] for schema in planted("Shop").tools] == ["ask", "buy"]
    both = planted("Shop", tools=["lightrl_code.arithmetic.add"])
    assert [schema["function"]["name"] for schema in both.tools] == ["add", "ask", "buy"]
    assert told(played(both, call("add", a=1, b=2))[1]) == "3"


def test_a_text_is_continued_and_an_episode_without_a_prompt_is_a_message() -> None:
    assert played(planted("Shop"), prompt=TEXT)[0].said == "Do what you can. Hello. There are: tea, salt."
    empty = Prompt("p", text="")
    assert played(planted("Seeded"), prompt=empty)[0].said == [{"role": "user", "content": " 7"}]
    assert played(planted("Seeded", chat=False), prompt=empty)[0].said == " 7"
    assert played(planted("Silent"))[0].said == list(CHAT.messages or ())


def test_reset_is_given_the_columns_and_may_change_them() -> None:
    environment = copy.deepcopy(planted("Shop", arguments={"greeting": "Hi. "}))
    before = copy.deepcopy(CHAT.to_json())
    said = environment.begin(CHAT, 7)
    assert said[-1]["content"] == "Do what you can. Hi. There are: tea, salt."  # type: ignore[index]
    environment.reply(call("buy", item="tea"))
    assert CHAT.to_json() == before
    assert environment._guest.given == {"answer": "4"}  # type: ignore[attr-defined]


def test_an_episode_that_meets_the_limit_on_turns_is_rewarded_all_the_same() -> None:
    _, first, second, _ = played(planted("Shop", max_turns=2), call("buy", item="tea"), call("buy", item="tea"))
    assert first.reply is not None
    assert second.reply is not None
    assert (first.reply.reward, second.reply.reward, second.reply.done) == (None, 0.5, False)


@pytest.mark.parametrize(("reward", "expected"), [("sold", 0.5), ("told", 3.0)])
def test_a_reward_function_of_trl_reads_the_environment(reward: str, expected: float) -> None:
    environment = planted("Shop", reward=f"planted_guests.{reward}")
    environment.check(frozenset({"stock"}))
    reply = played(environment, call("buy", item="tea", count=2), "Done.")[2].reply
    assert reply is not None
    # two of four were sold; a call, its result and an answer are three messages
    assert reply.reward == expected


def test_async_methods_share_the_event_loop_of_their_episode() -> None:
    environment = planted("Later", tool_timeout_s=1.0)
    wait = call("wait", seconds=0.0)
    begun, first, late, third, _ = played(environment, wait, call("wait", seconds=60.0), wait)
    assert begun.said == [{"role": "user", "content": "Do what you can.  Later."}]
    assert (told(first), told(late), told(third)) == ("call 1", "Error: no result within 1 s", "call 3")


@pytest.mark.parametrize("name", ["Dice", "Seeded"])
def test_the_same_seed_gives_the_same_episode(name: str) -> None:
    def episode(seed: int) -> list[Any]:
        return [(answer.said, answer.reply) for answer in played(planted(name), call("roll"), seed=seed)]

    assert episode(3) == episode(3) != episode(4)


def test_an_instance_is_closed_with_its_episode(tmp_path: Path) -> None:
    note = tmp_path / "closed"
    environment = planted("Closing", arguments={"note": str(note)})
    played(environment, call("buy", item="tea"))
    assert note.read_text() == "closed\n"


def test_it_travels_to_a_worker_and_leaves_no_instance_behind() -> None:
    described = planted("Shop")
    copied = pickle.loads(pickle.dumps(described))
    copied.begin(CHAT, 1)
    assert described._guest is None
    reply = played(described, call("buy", item="tea"), "Done.", runs="process")[2].reply
    assert reply is not None
    assert reply.reward == 0.25


@pytest.mark.parametrize(
    ("name", "turn", "expected"),
    [
        ("Raises", call("act"), "Error: ArithmeticError: not my day"),
        ("Hangs", call("act"), "Error: no result within 0.2 s"),
        ("Nothing", call("act"), "null"),
        ("Odd", call("act"), "<class 'set'>"),
        ("Base", call("act", how=3), "Error: act needs 'how' as str, got 3"),
        ("Base", call("act", where="here"), "Error: act has no argument 'where'; it takes 'how'"),
        ("Base", call("reset"), "Error: there is no tool 'reset'; there are: act"),
        ("Base", call("get_reward"), "Error: there is no tool 'get_reward'; there are: act"),
        ("Base", call("__init__"), "Error: there is no tool '__init__'; there are: act"),
        ("Base", "<tool_call>{nonsense</tool_call>", "Error: the call is no JSON: "),
    ],
)
def test_what_goes_wrong_in_a_call_is_told_to_the_policy(name: str, turn: str, expected: str) -> None:
    _, answer, last, _ = played(planted(name, tool_timeout_s=0.2), turn, "Done.")
    assert told(answer).startswith(expected)
    assert last.reply is not None
    assert last.reply.reward == 1.0


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Unbuilt", "OSError: no such board"),
        ("ResetRaises", "KeyError: 'level'"),
        (
            "ResetGivesBlocks",
            "reset() of planted_guests.ResetGivesBlocks returned list [{'type': 'text', 'text': 'a picture'}], expected a text",
        ),
        ("ResetGivesHalf", "half of a surrogate pair"),
        ("NaN", "reply().reward is nan, expected a finite number"),
        ("Infinite", "reply().reward is 1e+300, expected a finite number"),
        ("NoReward", "get_reward() of planted_guests.NoReward returned NoneType None, expected a finite number"),
        ("TextReward", "get_reward() of planted_guests.TextReward returned str '0.5', expected a finite number"),
        ("ListReward", "get_reward() of planted_guests.ListReward returned list [0.5], expected a finite number"),
        ("RewardRaises", "RuntimeError: the judge is out"),
    ],
)
def test_what_goes_wrong_in_the_class_fails_its_episode_alone(name: str, expected: str) -> None:
    answers = played(planted(name), call("act"), "Done.")
    errors = [answer.error for answer in answers if answer.error is not None]
    assert len(errors) == 1
    assert expected in errors[0]


@pytest.mark.parametrize(
    ("reward", "expected"),
    [
        ("two", "the reward planted_guests.two returned list [1.0, 2.0] for one episode, expected a list with one number"),
        ("one", "the reward planted_guests.one returned float 1.0 for one episode, expected a list with one number"),
        ("abstains", "the reward planted_guests.abstains returned NoneType None, expected a finite number"),
    ],
)
def test_what_a_reward_function_returns_is_checked(reward: str, expected: str) -> None:
    answers = played(planted("Base", reward=f"planted_guests.{reward}"), "Done.")
    assert expected in (answers[1].error or "")


@pytest.mark.parametrize(
    "name", ["Dies", "RewardExits", *(pytest.param(name, marks=pytest.mark.thorough) for name in ("RewardHangs", "ResetHangs"))]
)
def test_what_cannot_be_stopped_is_killed_with_its_worker_and_others_go_on(name: str) -> None:
    environment = planted(name, workers=1, timeout_s=4.0, tool_timeout_s=2.0)
    host = EpisodeHost(environment)
    try:
        (begun,) = host.begin([(0, CHAT, 1)]).result()
        error = begun.error or host.reply([(0, call("act") if name == "Dies" else "Done.")]).result()[0].error
        assert error
        # the next episode has a worker again
        (other,) = host.begin([(1, CHAT, 1)]).result()
        assert (other.error is None) == (name != "ResetHangs")
    finally:
        host.close()


def test_a_close_that_raises_ends_nothing() -> None:
    *_, last, ended = played(planted("CloseRaises"), "Done.")
    assert (last.error, last.reply and last.reply.reward) == (None, 1.0)
    assert "OSError: stuck" in (ended.error or "")


def test_state_that_episodes_share_breaks_the_contract(tmp_path: Path) -> None:
    cases = class_cases("environment", TRLEnvironment, {"path": "planted_guests.Shared"})
    (apart,) = [case for case in cases if "no influence on another" in str(case)]
    with pytest.raises(BrokenContract, match="beside other episodes it replies something else"):
        apart.run(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"path": "Shop"}, "'Shop' is no import path, package.module.name"),
        ({"path": "planted_guests.Shopp"}, "has no 'Shopp'"),
        ({"path": "planted_guests.made"}, "is function: name the class itself"),
        ({"path": "planted_guests.number"}, "is int: name the class itself"),
        ({"path": "planted_guests.NoReset"}, "has no method `reset`"),
        ({"path": "planted_guests.NoTools"}, "has no public method beside reset and get_reward"),
        ({"path": "planted_guests.NeedsSize"}, "takes size, and `arguments` has {}: missing a required argument: 'size'"),
        ({"path": "planted_guests.Base", "arguments": {"size": 3}}, "got an unexpected keyword argument 'size'"),
        ({"path": "planted_guests.ManyArguments"}, "called with arguments by name"),
        ({"path": "planted_guests.Base", "reward": "planted_guests.number"}, "is int, which cannot be called"),
        ({"path": "planted_guests.Base", "reward": "planted_guests.nobody"}, "has no 'nobody'"),
    ],
)
def test_what_is_not_of_trls_form_is_refused_when_it_is_made(arguments: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=expected.replace("{", r"\{").replace("(", r"\(")):
        TRLEnvironment(**arguments)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"path": "planted_guests.NeedsColumns"}, "ask for board, level, which prompts do not have; they have prompt, seed, stock"),
        ({"path": "planted_guests.NoTypes"}, "Argument how is missing a type hint"),
        ({"path": "planted_guests.NoDocstring"}, "it has no docstring"),
        ({"path": "planted_guests.Base", "reward": "planted_guests.needs_ids"}, "asks for completion_ids, which no episode has"),
    ],
)
def test_what_cannot_work_with_the_data_is_refused_before_training(environment: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        TRLEnvironment(**environment).check(frozenset({"stock"}))
