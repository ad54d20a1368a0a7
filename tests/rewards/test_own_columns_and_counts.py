"""Rewards whose arguments name columns, that count what they use, and whose failures ask for a pause."""

from __future__ import annotations

import time
from typing import Any

import pytest

from lightrl import AsyncReward, Prompt, RowReward
from lightrl.rewards import dispatch


class Named(RowReward):
    """The number in a column of one's choice."""

    runs = "inline"

    def __init__(self, column: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.column, self.accepts, self._asked = column, {column: True}, 0

    def score(self, prompt: Prompt, completion: str, **columns: Any) -> float:
        assert set(columns) == {self.column}
        self._asked += 1
        return float(columns[self.column])

    def counts(self) -> dict[str, float]:
        asked, self._asked = self._asked, 0
        return {"asked": asked}


class Busy(AsyncReward):
    """Wants a pause after its first call."""

    def __init__(self, pause: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.pause, self._times = pause, list[float]()

    async def score(self, prompt: Prompt, completion: str) -> float:  # type: ignore[override]
        self._times.append(time.monotonic())
        if len(self._times) == 1:
            error = ConnectionError("busy")
            error.retry_after = self.pause  # type: ignore[attr-defined]
            raise error
        return 1.0


def test_a_reward_is_given_the_columns_that_it_says(reward_set: Any, texts: Any) -> None:
    rewards = reward_set({"named": Named("level")})
    assert rewards.score(texts(["a", "b"], level=3, other=4)).reward_parts["named"].tolist() == [3, 3]
    with pytest.raises(ValueError, match=r"'level'.*other"):
        rewards.check({"other"})


def test_what_a_reward_counts_is_reported_once(reward_set: Any, texts: Any) -> None:
    rewards = reward_set({"named": Named("level")})
    for completions in (["a", "b", "c"], ["d"]):
        scoring = rewards.submit(texts(completions, level=3))
        scoring.result()
        asked = scoring.statistics()["rewards/named/asked"]
        assert (asked.value.tolist(), asked.reduce) == ([len(completions)], "sum")


@pytest.mark.parametrize(("asked", "longest", "least", "most"), [(0.5, 60.0, 0.5, 10.0), (3600.0, 0.1, 0.1, 10.0)])
def test_a_failure_may_ask_for_a_pause(
    asked: float, longest: float, least: float, most: float, reward_set: Any, texts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(dispatch, "LONGEST_ASKED", longest)
    busy = Busy(asked, retries=1)
    assert reward_set({"busy": busy}).score(texts(["a"])).reward_parts["busy"].tolist() == [1]
    first, second = busy._times
    assert least <= second - first < most
