"""Async rewards that do as they like with their loop, their time and their cancellation: rows fail, and the run goes on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from lightrl import AsyncReward, Prompt
from lightrl.rewards import dispatch
from lightrl.types import Outcome
from lightrl.workers import event_loop, loop_place

V, E, T = Outcome.VALUE, Outcome.ERROR, Outcome.TIMEOUT


async def goes_on() -> float:
    while True:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            continue


async def scores_when_cancelled() -> float:
    try:
        await asyncio.sleep(10)
    except asyncio.CancelledError:
        return 9.0
    return 8.0


async def fails_when_cancelled() -> float:
    try:
        await asyncio.sleep(10)
    finally:
        raise ValueError("cannot be cancelled")


async def blocks_and_scores() -> float:
    time.sleep(0.4)
    return 9.0


async def waits_for_nothing() -> float:
    return await asyncio.get_running_loop().create_future()


async def cancels_everything() -> float:
    for task in asyncio.all_tasks():
        task.cancel()
    return 9.0


async def cancels_itself() -> float:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(10)
    return 9.0


async def stops_the_loop() -> float:
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0.05)
    return 9.0


async def kills_the_loop() -> float:
    def kill() -> None:
        raise KeyboardInterrupt

    asyncio.get_running_loop().call_soon(kill)
    await asyncio.sleep(10)
    return 9.0


class TiredError(ConnectionError):
    """Says when it wants to be asked again."""

    def __init__(self, after: object) -> None:
        super().__init__("tired")
        self.retry_after = after


async def tired(after: object) -> float:
    raise TiredError(after)


DEEDS: dict[str, tuple[Callable[[], Awaitable[float]], Outcome]] = {
    "goes on": (goes_on, T),
    "scores when it is cancelled": (scores_when_cancelled, T),
    "fails when it is cancelled": (fails_when_cancelled, T),
    "blocks the loop and scores": (blocks_and_scores, T),
    "waits for nothing": (waits_for_nothing, T),
    "cancels itself": (cancels_itself, E),
    "wants to be asked in the past": (lambda: tired(-5), E),
    "wants to be asked soon": (lambda: tired("soon"), E),
    "wants to be asked at no time": (lambda: tired(float("nan")), E),
}
ENDS_LOOP: dict[str, tuple[Callable[[], Awaitable[float]], Outcome]] = {
    "cancels everything": (cancels_everything, E),
    "stops the loop": (stops_the_loop, V),
    "kills the loop": (kills_the_loop, T),
}


class Judge(AsyncReward):
    """Does as the completion says."""

    async def score(self, prompt: Prompt, completion: str) -> float:  # type: ignore[override]
        if completion in ENDS_LOOP:
            return await ENDS_LOOP[completion][0]()
        if completion in DEEDS:
            return await DEEDS[completion][0]()
        await asyncio.sleep(0.01)
        return float(len(completion))


@pytest.fixture(autouse=True)
def _short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(dispatch, "LONGEST_ASKED", 0.1)
    monkeypatch.setattr(loop_place, "CLOSE_TIMEOUT_S", 0.3)
    monkeypatch.setattr(event_loop, "GRACE_S", 0.05)
    monkeypatch.setattr(event_loop, "END_S", 0.1)


@pytest.mark.parametrize("deed", DEEDS)
def test_it_fails_alone_and_nobody_waits_for_it(deed: str, reward_set: Any, texts: Any) -> None:
    rewards = reward_set({"judge": Judge(timeout_s=0.3, retries=1, concurrency=2)})
    started = time.monotonic()
    scored = rewards.score(texts(["a", deed, "abc", *["abcd"] * 4]))
    outcomes = scored.outcomes["judge"].tolist()
    assert outcomes[1] == DEEDS[deed][1]
    assert outcomes[3:] == [V] * 4
    assert time.monotonic() - started < 5
    assert rewards.score(texts(["ab"])).reward_parts["judge"].tolist() == [2.0]


@pytest.mark.parametrize("deed", ENDS_LOOP)
def test_a_loop_that_it_tries_to_end_goes_on(deed: str, reward_set: Any, texts: Any) -> None:
    rewards = reward_set({"judge": Judge(timeout_s=0.3, retries=0, concurrency=2)})
    started = time.monotonic()
    assert rewards.score(texts([deed, "abc"])).outcomes["judge"].tolist()[0] == ENDS_LOOP[deed][1]
    assert time.monotonic() - started < 5
    assert rewards.score(texts(["ab"])).reward_parts["judge"].tolist() == [2.0]


class Unready(Judge):
    """Cannot say how many requests it sends."""

    def requests(self, prompt: Prompt, completion: str, **columns: object) -> Any:
        return "many" if completion == "odd" else 1


def test_a_number_of_requests_that_is_none_fails_its_row(reward_set: Any, texts: Any) -> None:
    rewards = reward_set({"judge": Unready(requests_per_minute=6000)})
    assert rewards.score(texts(["a", "odd"])).outcomes["judge"].tolist() == [V, E]


class Confused(Judge):
    """Names an instance in place of classes."""

    transient = ("not a class",)  # type: ignore[assignment]


def test_what_fails_beside_the_call_fails_the_row(reward_set: Any, texts: Any) -> None:
    rewards = reward_set({"judge": Confused(timeout_s=0.2, retries=1)})
    assert rewards.score(texts(["a", "waits for nothing"])).outcomes["judge"].tolist() == [V, E]


class Lingers(Judge):
    """Never comes to the end of its close()."""

    async def close(self) -> None:
        await goes_on()


class Fails(Judge):
    """Cannot be closed."""

    async def close(self) -> None:
        raise OSError("no connection")


@pytest.mark.parametrize(("judge", "said"), [(Lingers, "was not done within 0.3 s"), (Fails, "OSError: no connection")])
def test_an_end_that_never_comes_is_said_and_left(judge: type[Judge], said: str, reward_set: Any, texts: Any, caplog: Any) -> None:
    rewards = reward_set({"judge": judge()})
    rewards.score(texts(["ab"]))
    started = time.monotonic()
    rewards.close()
    assert time.monotonic() - started < 5
    assert said in caplog.text
