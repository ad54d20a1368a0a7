"""The environment of the page about several turns can be played, and the page names every finish reason."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from lightrl_workshop import class_cases

from lightrl import Prompt

PAGE = (Path(__file__).parents[2] / "docs" / "environments.md").read_text()


def names() -> dict[str, Any]:
    found: dict[str, Any] = {"__name__": "page"}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(block, found)
    return found


def test_its_environment_can_be_played() -> None:
    for seed in range(20):
        higher = names()["Higher"]()
        higher.check(frozenset())
        assert higher.begin(Prompt(id="any", text=""), seed) == "Guess a number from 1 to 9."
        said = [higher.reply(str(guess)) for guess in range(1, 10)]
        right = [reply for reply in said if reply.done]
        assert [(reply.said, reply.reward, reply.state) for reply in right] == [("Right.", 1.0, {"won": True})]
        secret = said.index(right[0])
        assert [reply.said for reply in said] == ["Higher."] * secret + ["Right."] + ["Lower."] * (8 - secret)
        assert higher.reply("seven").counts == {"no_number": 1.0}


def test_its_numbers_and_its_advantage_keep_their_contracts(tmp_path: Path) -> None:
    found = names()
    for kind, name in (("environment", "Nearer"), ("advantage", "ByNearness")):
        for case in class_cases(kind, found[name]):
            # a worker process cannot load a class of a page
            if "worker process" not in case.check.title:
                case.run(tmp_path)


def test_how_near_a_guess_was() -> None:
    nearer = names()["Nearer"]()
    nearer.begin(Prompt(id="any", text=""), 3)
    secret = int(nearer.secret)
    told = [nearer.reply(guess).extras for guess in ("none", str(secret), str(9 if secret == 1 else 1))]
    assert [each["guesses"] for each in told] == [1, 2, 3]
    assert [each["near"] for each in told] == [0.0, 1.0, 1 - abs(secret - (9 if secret == 1 else 1)) / 8]


def test_its_reward_prefers_early_wins() -> None:
    early = names()["early"]
    assert early("", 1, {"won": True}) > early("", 3, {"won": True}) > early("", 1, {"won": False}) == early("", 1, {}) == 0.0


def test_every_finish_reason_is_in_the_table() -> None:
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) - {"finish_reason"} == {"stop", "length", "turns", "failed"}
