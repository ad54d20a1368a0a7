"""Rewards that wait for an answer: time limits, retries, rates, and a loop that is blocked."""

from __future__ import annotations

import asyncio
import contextvars
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tenacity import wait_fixed

from lightrl import AsyncReward, Prompt
from lightrl.rewards import dispatch
from lightrl.types import Outcome
from lightrl.workers import loop_place

V, E, T = Outcome.VALUE, Outcome.ERROR, Outcome.TIMEOUT


SEEN = contextvars.ContextVar("seen", default=False)


class Judge(AsyncReward):
    """Does as the completion says."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.under_way = self.most = self.calls = 0
        self.closed = False

    async def score(self, prompt: Prompt, completion: str) -> float | None:  # type: ignore[override]
        self.calls += 1
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            return await self.said(completion)
        finally:
            self.under_way -= 1

    async def said(self, completion: str) -> float | None:
        await asyncio.sleep(0.02)
        if completion == "hang":
            await asyncio.sleep(1e6)
        if completion == "block":
            time.sleep(3)
        if completion == "broken":
            raise ValueError("no JSON")
        if completion == "exit":
            raise SystemExit(3)
        if completion == "cancelled":
            raise asyncio.CancelledError
        if completion == "context":
            seen, _ = SEEN.get(), SEEN.set(True)
            return float(seen)
        if completion == "busy" and self.calls < 3:
            raise ConnectionError("429")
        return None if completion == "none" else float(len(completion))

    async def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def _alarms_interrupt() -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    yield
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "FIRST_PAUSE", 0.01)


def test_answers_failures_and_time_outs_are_told_apart(reward_set: Any, texts: Any, caplog: Any) -> None:
    judge = Judge(timeout_s=0.5, retries=1)
    scored = reward_set({"judge": judge}).score(texts(["abc", "hang", "broken", "none"]))
    assert scored.outcomes["judge"].tolist() == [V, T, E, Outcome.ABSTAINED]
    assert scored.scorable.tolist() == [True, False, False, False]
    assert judge.calls == 5, "a time-out is tried again, a mistake is not"
    assert "no answer within 0.5 s" in caplog.text


def test_transient_errors_are_tried_again_and_others_are_not(reward_set: Any, texts: Any) -> None:
    patient, hasty = Judge(retries=2), Judge(retries=1)
    assert reward_set({"judge": patient}).score(texts(["busy"])).outcomes["judge"].tolist() == [V]
    assert patient.calls == 3
    assert reward_set({"judge": hasty}).score(texts(["busy"])).outcomes["judge"].tolist() == [E]
    assert hasty.calls == 2


def test_no_more_calls_at_a_time_than_allowed_and_many_at_once(reward_set: Any, texts: Any) -> None:
    judge = Judge(concurrency=5)
    reward_set({"judge": judge}).score(texts(["a"] * 40))
    assert judge.most == 5


def test_what_a_call_does_to_its_surroundings_is_its_own_affair(reward_set: Any, texts: Any) -> None:
    scored = reward_set({"judge": Judge(concurrency=1)}).score(texts(["exit", "cancelled", "context", "context"]))
    assert scored.outcomes["judge"].tolist() == [E, E, V, V]
    assert scored.reward_parts["judge"][2:].tolist() == [0.0, 0.0]


def test_between_two_attempts_others_have_their_turn(reward_set: Any, texts: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(dispatch, "wait_random_exponential", lambda **_: wait_fixed(0.3))
    judge = Judge(concurrency=1, retries=3)
    scored = reward_set({"judge": judge}).score(texts(["busy", "a", "ab"]))
    assert scored.reward_parts["judge"].tolist() == [4.0, 1.0, 2.0]
    assert judge.calls == 4, "by the time of its second attempt the others had been answered"


def test_an_interrupt_takes_back_what_was_asked_and_leaves_every_place_free(reward_set: Any, texts: Any) -> None:
    judge = Judge(concurrency=3)
    rewards = reward_set({"judge": judge})
    started = time.monotonic()
    for _ in range(2):
        scoring = rewards.submit(texts(["hang"] * 9))
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            scoring.result()
    assert rewards.score(texts(["a"] * 9)).scorable.all()
    assert judge.most == 3
    assert time.monotonic() - started < 5


def test_no_more_calls_per_minute_than_allowed(reward_set: Any, texts: Any) -> None:
    started = time.monotonic()
    reward_set({"judge": Judge(requests_per_minute=600)}).score(texts(["a"] * 16))
    assert time.monotonic() - started > 0.5


def test_a_call_of_several_requests_counts_as_so_many(reward_set: Any, texts: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(Judge, "requests", lambda self, prompt, completion: len(completion))
    started = time.monotonic()
    reward_set({"judge": Judge(requests_per_minute=600)}).score(texts(["aaaa"] * 4))
    assert time.monotonic() - started > 0.5


def test_a_reward_that_blocks_its_loop_does_not_hang_the_run(reward_set: Any, texts: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(loop_place, "CLOSE_TIMEOUT_S", 0.3)
    rewards = reward_set({"judge": Judge(timeout_s=0.2, retries=0)})
    started = time.monotonic()
    assert rewards.score(texts(["block"])).outcomes["judge"].tolist() == [T]
    assert time.monotonic() - started < 2.5
    assert rewards.score(texts(["ab"])).reward_parts["judge"].tolist() == [2.0]


def test_it_is_closed_with_the_set_and_opens_again(reward_set: Any, texts: Any) -> None:
    judge = Judge()
    rewards = reward_set({"judge": judge})
    rewards.start()
    rewards.close()
    assert judge.closed
    assert rewards.score(texts(["ab"])).reward_parts["judge"].tolist() == [2.0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"concurrency": 0}, "concurrency >= 1"),
        ({"requests_per_minute": 0.0}, "requests_per_minute > 0 or null"),
        ({"workers": 3}, "runs async, where workers would limit nothing"),
        ({"runs": "inline"}, "runs async; runs='inline' is not possible"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Judge(**arguments)
