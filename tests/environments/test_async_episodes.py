"""Environments that wait for somebody else: time limits, and a loop that is blocked."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from lightrl import AsyncEnvironment, Prompt, Reply
from lightrl.workers import event_loop, loop_place

LIMIT_S = 2.0
"""Seconds that a reply may take: whoever is well answers after 0.01, so that a busy machine makes nobody late."""


class OwnError(BaseException):
    """No `Exception`."""


class Service(AsyncEnvironment):
    """Does as the prompt says in the second turn."""

    most = under_way = 0
    released = threading.Event()
    """Nobody blocks or goes on any more."""

    async def begin(self, prompt: Prompt, seed: int) -> str:  # type: ignore[override]
        self.fault, self.turns = prompt.text, 0
        return f"seed {seed}"

    async def reply(self, completion: str) -> Reply:
        self.turns += 1
        Service.under_way += 1
        Service.most = max(Service.most, Service.under_way)
        try:
            await asyncio.sleep(0.01)
            return await self.said(completion) if self.turns == 2 else Reply(f"{self.turns}: {completion}", 1.0)
        finally:
            Service.under_way -= 1

    async def said(self, completion: str) -> Reply:
        if self.fault == "hang":
            await asyncio.sleep(1e6)
        while self.fault == "goes on" and not Service.released.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.05)
        if self.fault == "own":
            raise OwnError("mine")
        if self.fault == "cancels everything":
            for task in asyncio.all_tasks():
                task.cancel()
        if self.fault == "block":
            Service.released.wait()
        if self.fault == "raise":
            raise ConnectionError("gone")
        if self.fault == "exit":
            raise SystemExit(3)
        if self.fault == "cancelled":
            raise asyncio.CancelledError
        return Reply(f"{self.turns}: {completion}", float("nan") if self.fault == "nan" else 1.0)

    async def end(self) -> None:
        if self.fault == "no end":
            raise ConnectionError("no end")


@pytest.fixture(autouse=True)
def _nobody_under_way(hosted: Any) -> Iterator[None]:
    Service.most = Service.under_way = 0
    Service.released.clear()
    yield
    # before the host closes, which waits for what is under way
    Service.released.set()


def said(own: list[Any]) -> list[str]:
    return [answer.said or answer.reply.said for answer in own]


def test_failures_are_told_apart_and_stay_alone(hosted: Any, play: Any) -> None:
    answers = play(hosted(Service(timeout_s=LIMIT_S)), ["well", "hang", "raise", "exit", "cancelled", "nan", "well"], 3)
    assert [len(own) for own in answers] == [4, 3, 3, 3, 3, 3, 4]
    assert said(answers[0]) == ["seed 100", "1: ", "2: x", "3: xx"]
    assert said(answers[6]) == ["seed 106", "1: xxxxxx", "2: xxxxxxx", "3: xxxxxxxx"]
    wrong = [own[-1] for own in answers[1:6]]
    assert [answer.late for answer in wrong] == [True, False, False, False, False]
    reasons = ["no answer within 2 s", "ConnectionError: gone", "SystemExit: 3", "CancelledError", "reward is nan"]
    assert all(reason in answer.error for reason, answer in zip(reasons, wrong, strict=True))
    assert wrong[0].seconds >= LIMIT_S


def test_nobody_waits_for_an_episode_that_goes_on_when_its_time_is_over(hosted: Any, play: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(event_loop, "GRACE_S", 0.05)
    answers = play(hosted(Service(timeout_s=LIMIT_S)), ["goes on", "own", "well"], 3)
    assert [len(own) for own in answers] == [3, 3, 4]
    assert answers[0][-1].late
    assert "OwnError: mine" in answers[1][-1].error


def test_no_more_calls_at_a_time_than_allowed_and_many_at_once(hosted: Any, play: Any) -> None:
    play(hosted(Service(concurrency=5)), ["well"] * 20, 1)
    assert Service.most == 5


def test_whoever_only_stood_behind_a_blocked_loop_goes_on_in_another(hosted: Any, play: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(loop_place, "CLOSE_TIMEOUT_S", 0.1)
    host = hosted(Service(timeout_s=LIMIT_S))
    answers = play(host, ["well", "block", "well"], 3)
    assert [len(own) for own in answers] == [4, 3, 4]
    assert answers[1][-1].late
    assert "has blocked its event loop for 2.1 s: it must await, not wait" in answers[1][-1].error
    assert said(answers[2]) == ["seed 102", "1: xx", "2: xxx", "3: xxxx"]


def test_slices_that_wait_for_the_same_blocked_loop_both_go_on(hosted: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(loop_place, "CLOSE_TIMEOUT_S", 0.1)
    host = hosted(Service(timeout_s=LIMIT_S))
    host.begin([(i, Prompt(id="p", text="block" if i == 1 else "well"), i) for i in range(4)]).result()
    host.reply([(i, "a") for i in range(4)]).result()
    first, second = host.reply([(0, "b"), (1, "b")]), host.reply([(2, "b"), (3, "b")])
    assert [answer.reply.said for answer in second.result()] == ["2: b", "2: b"]
    one, other = first.result()
    assert one.reply is not None
    assert other.late


def test_an_episode_that_cancels_everything_fails_and_the_next_one_begins(hosted: Any, play: Any) -> None:
    host = hosted(Service())
    (own,) = play(host, ["cancels everything"], 3)
    assert own[-1].error == "reply() has cancelled everything in its event loop"
    assert len(own) == 3
    assert said(play(host, ["well"], 2)[0]) == ["seed 100", "1: ", "2: x"]


def test_what_end_raises_is_logged(hosted: Any, caplog: Any) -> None:
    host = hosted(Service())
    host.begin([(0, Prompt(id="p", text="no end"), 1), (1, Prompt(id="p", text="no end"), 1)]).result()
    (answer,) = host.end([0]).result()
    assert "ConnectionError: no end" in answer.error
    host.close()
    assert caplog.text.count("end() of an environment failed in 1 episodes; first: ConnectionError: no end") == 2
