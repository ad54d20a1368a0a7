"""Rewards that misbehave on one row: that row fails, or the run ends with a message; the other rows have their own scores."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import misbehaving
import pytest

from lightrl.config.build.builder import Builder
from lightrl.config.read.refusals import ConfigError
from lightrl.rewards.reward_set import RewardSet
from lightrl.types import Outcome

V, E, T = Outcome.VALUE, Outcome.ERROR, Outcome.TIMEOUT


@pytest.fixture(scope="module")
def rewards() -> Iterator[dict[str, RewardSet]]:
    """One of each kind for all tests, so that what a deed leaves behind would be seen by the next."""
    made = {
        "inline": RewardSet({"it": misbehaving.MisbehavesInline()}),
        "process": RewardSet({"it": misbehaving.Misbehaves(workers=1, timeout_s=20.0)}),
        "async": RewardSet({"it": misbehaving.Waits(timeout_s=20.0, retries=0)}),
    }
    yield made
    for each in made.values():
        each.close()


@pytest.mark.parametrize("runs", ["inline", "process", "async"])
@pytest.mark.parametrize("deed", misbehaving.FAILURES)
def test_a_row_fails_alone(deed: str, runs: str, rewards: dict[str, RewardSet], texts: Any) -> None:
    scoring = rewards[runs].submit(texts(["ab", deed, "abc"]))
    scored = scoring.result()
    assert scored.outcomes["it"].tolist() == [V, E, V]
    assert [float(row.nansum()) for row in scored.reward_parts["it"]][::2] == [2.0, 3.0]
    reason = scoring.failures["it"][1]
    assert reason is not None
    assert len(reason) < 1000
    assert "\n" not in reason


@pytest.mark.parametrize("runs", ["inline", "process", "async"])
@pytest.mark.parametrize("deed", misbehaving.VALUES)
def test_what_is_a_number_after_all_is_one(deed: str, runs: str, rewards: dict[str, RewardSet], texts: Any) -> None:
    assert rewards[runs].score(texts(["ab", deed])).reward_parts["it"].tolist() == [2.0, 4.0]


@pytest.mark.parametrize("runs", ["inline", "process", "async"])
@pytest.mark.parametrize("deed", misbehaving.WRONG)
def test_a_wrong_type_is_a_short_message(deed: str, runs: str, rewards: dict[str, RewardSet], texts: Any) -> None:
    def training_step() -> None:
        rewards[runs].score(texts(["ab", deed]))

    with pytest.raises(ConfigError) as refused, Builder().refusals():
        training_step()
    (line,) = refused.value.lines()
    assert line.startswith("reward 'it', row 1 (prompt 'p1'): got ")
    assert "expected" in line


@pytest.mark.parametrize("deed", misbehaving.PROCESS_FAILURES)
def test_a_process_can_be_lost(deed: str, reward_set: Any, texts: Any) -> None:
    scored = reward_set({"it": misbehaving.Misbehaves(workers=1, timeout_s=1.5)}).score(texts(["ab", deed, "abc", "abcd"]))
    assert scored.outcomes["it"].tolist()[1] in (E, T)
    assert scored.reward_parts["it"][[0, 2, 3]].tolist() == [2.0, 3.0, 4.0]


@pytest.mark.parametrize("deed", misbehaving.PROCESS_VALUES)
def test_no_score_gets_on_another_row(deed: str, reward_set: Any, texts: Any) -> None:
    rewards = reward_set({"it": misbehaving.Misbehaves(workers=1, timeout_s=3.0)})
    completions = ["ab", deed, *("a" * n for n in range(10, 40))]
    scored = rewards.score(texts(completions))
    right = scored.outcomes["it"] == V
    assert right[:2].all()
    assert right.sum() >= len(completions) - 1
    expected = [2.0, 3.0, *(float(n) for n in range(10, 40))]
    assert [s for s, v in zip(scored.reward_parts["it"].tolist(), right, strict=True) if v] == [
        s for s, v in zip(expected, right, strict=True) if v
    ]


def test_the_copy_of_a_reward_that_forks_ends_at_full_load(texts: Any, reward_set: Any) -> None:
    rewards = reward_set({"it": misbehaving.Misbehaves(workers=2, timeout_s=5.0)})
    completions = [text for n in range(1, 61) for text in ("forks and goes on", "a" * n)]
    assert rewards.score(texts(completions)).reward_parts["it"].tolist() == [s for n in range(1, 61) for s in (3.0, float(n))]


@pytest.mark.parametrize("runs", ["inline", "async"])
def test_a_fork_in_the_training_process_does_not_double_it(runs: str, rewards: dict[str, RewardSet], texts: Any) -> None:
    scored = rewards[runs].score(texts(["ab", "forks and goes on", "abc"]))
    assert scored.reward_parts["it"].tolist() == [2.0, 3.0, 3.0]
    copy, deadline = misbehaving.FORKED.pop(), time.monotonic() + 5
    while (ended := os.waitpid(copy, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert ended == (copy, 0)


def test_a_worker_that_stands_still_before_a_large_batch_is_replaced(reward_set: Any, texts: Any) -> None:
    rewards = reward_set({"it": misbehaving.Misbehaves(workers=1, timeout_s=1.5)})
    assert rewards.score(texts(["stops later"])).scorable.all()
    time.sleep(0.2)
    assert rewards.score(texts([f"{n:020000}" for n in range(100)])).reward_parts["it"].tolist() == [20_000.0] * 100


def test_what_a_reward_writes_into_its_arguments_reaches_nobody(reward_set: Any, texts: Any) -> None:
    rollout = texts(["a", "b"], group=[0, 1], steps=[1, 2])
    for prompt in rollout.prompts:
        object.__setattr__(prompt, "answer", {"n": 3})
    asked = [rollout.episode(row).messages for row in range(2)]
    rewards = reward_set({"one": misbehaving.Writes(), "two": misbehaving.Writes()})
    for _ in range(2):
        parts = rewards.score(rollout).reward_parts
        assert parts["one"].tolist() == parts["two"].tolist() == [6.0, 6.0]
    assert [prompt.columns for prompt in rollout.prompts] == [{"steps": [1, 2]}] * 2
    assert [prompt.answer for prompt in rollout.prompts] == [{"n": 3}] * 2
    assert [rollout.episode(row).messages for row in range(2)] == asked
