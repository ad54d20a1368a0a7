"""A column of the data chooses the environment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from lightrl_curriculum import EnvironmentByColumn

from lightrl import AsyncEnvironment, Environment, Prompt, Reply, SingleTurn


class Shout(Environment):
    """Says it again, loud."""

    runs = "inline"
    gives_rewards = True

    def __init__(self, mark: str = "!") -> None:
        super().__init__()
        self.mark, self.ended = mark, False

    def begin(self, prompt: Prompt, seed: int) -> str:
        return f"{prompt.text}{self.mark}"

    def reply(self, completion: str) -> Reply:
        return Reply(completion.upper() + self.mark, 1.0)


class Tooled(SingleTurn):
    """Has a tool."""

    @property
    def tools(self) -> Sequence[Any]:
        return [{"name": "add"}]


class Waiting(AsyncEnvironment):
    """Runs in a loop."""

    async def begin(self, prompt: Prompt, seed: int) -> str:  # type: ignore[override]
        return "go"

    async def reply(self, completion: str) -> Reply:
        return Reply("go")


def prompt(name: Any) -> Prompt:
    return Prompt(id="p", text="hey", columns={"game": name})


def test_each_prompt_gets_the_environment_that_its_column_names(hosted: Any) -> None:
    host = hosted(EnvironmentByColumn({"loud": Shout(), "louder": Shout("!!"), "once": SingleTurn()}, column="game", max_turns=3))
    names = ["louder", "once", "loud", "quiet", None]
    begun = host.begin([(i, prompt(name), 1) for i, name in enumerate(names)]).result()
    assert [answer.said for answer in begun] == ["hey!!", "hey", "hey!", None, None]
    assert "prompt 'p' has game 'quiet', and environments are: loud, louder, once" in begun[3].error
    replies = [answer.reply for answer in host.reply([(i, "so") for i in range(3)]).result()]
    assert replies == [Reply("SO!!", 1.0), Reply(done=True), Reply("SO!", 1.0)]


def test_it_is_as_strict_and_as_rich_as_one_of_them() -> None:
    quick, slow = Shout(), Shout()
    slow.runs = "process"
    assert EnvironmentByColumn({"a": quick}).runs == "inline"
    assert EnvironmentByColumn({"a": quick, "b": slow}).runs == "process"
    assert EnvironmentByColumn({"a": SingleTurn(), "b": quick}).gives_rewards
    assert not EnvironmentByColumn({"a": SingleTurn()}).gives_rewards
    assert EnvironmentByColumn({"a": Tooled(), "b": Tooled()}).tools == [{"name": "add"}]


def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one environment"):
        EnvironmentByColumn({})
    with pytest.raises(ValueError, match="'b', which runs in an event loop"):
        EnvironmentByColumn({"a": SingleTurn(), "b": Waiting()})
    with pytest.raises(ValueError, match="those of 'a' and 'b' differ"):
        EnvironmentByColumn({"a": SingleTurn(), "b": Tooled()})
    with pytest.raises(ValueError, match=r"'game', which the prompts lack. They have: answer"):
        EnvironmentByColumn({"a": SingleTurn()}, column="game").check(frozenset({"answer"}))
    EnvironmentByColumn({"a": SingleTurn()}, column="game").check(frozenset({"game"}))


def test_a_worker_loads_all_of_them(hosted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "tests" / "environments"))
    import bad_environments

    host = hosted(EnvironmentByColumn({"a": bad_environments.Counting(), "b": SingleTurn()}, column="game", workers=1))
    begun = host.begin([(0, prompt("a"), 4), (1, prompt("b"), 4)]).result()
    assert begun[0].said.startswith("seed 4, drew")
    assert begun[1].said == "hey"
