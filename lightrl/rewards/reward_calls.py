"""The calls by which a reward scores rows: one for each row that the cache does not know, or one for all rows."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lightrl.parts.async_reward import AsyncReward
from lightrl.parts.reward import BatchReward, RowReward
from lightrl.rewards.cache import ScoreCache
from lightrl.rewards.reward_scores import RewardScores, all_failed, from_answers, from_tensor
from lightrl.rewards.row_call import Answer, Call, Runner, calls_of, named_arguments, perform
from lightrl.types import Rollout
from lightrl.workers.calls import describe
from lightrl.workers.forked import only_this_process


@dataclass(frozen=True)
class Done:
    """Answers that are there already."""

    answers: list[Answer]
    """One per call."""

    def result(self) -> list[Answer]:
        """The answers."""
        return self.answers


class InlineRunner:
    """Makes calls one after another; an exception is caught, but nothing can stop a call that does not return."""

    def __init__(self, reward: RowReward) -> None:
        """
        Args:
            reward: to be called.
        """
        self._reward = reward

    def check(self) -> None:
        """It runs where it stands."""

    def start(self) -> None:
        """Nothing is needed."""

    def submit(self, calls: Sequence[Call]) -> Done:
        """Make the calls."""
        return Done([perform(self._reward, call) for call in calls])

    def close(self) -> None:
        """Nothing was started."""


@dataclass(frozen=True)
class Begun:
    """Calls under way."""

    wait: Callable[[], RewardScores]
    """Waits for the scores."""
    cached: int = 0
    """Number of scores that were in the cache."""


class RowCalls:
    """Calls of a row reward, one per row."""

    def __init__(self, name: str, reward: RowReward) -> None:
        """
        Args:
            name: of the reward.
            reward: says where it runs, and how many scores are kept.
        """
        self._name, self._runner, self._names = name, runner_of(reward), named_arguments(reward)
        self._cache = ScoreCache(reward) if reward.cache else None

    def check(self) -> None:
        """Refuse a reward that cannot be sent to where it is to run.

        Raises:
            ValueError: says why.
        """
        self._runner.check()

    def start(self) -> None:
        """Get ready in the background."""
        self._runner.start()

    def close(self) -> None:
        """End processes and threads; they start again when they are needed."""
        self._runner.close()

    def begin(self, rollout: Rollout) -> Begun:
        """Begin with the rows of a rollout."""
        calls = calls_of(self._names, rollout)
        if self._cache is None:
            pending = self._runner.submit(calls)
            return Begun(lambda: from_answers(self._name, pending.result(), rollout))
        cached = _CachedCalls(self._runner, self._cache, calls)
        return Begun(lambda: from_answers(self._name, cached.result(), rollout), cached.hits)


class BatchCall:
    """The call of a batch reward, which is given all rows at once."""

    def __init__(self, name: str, reward: BatchReward) -> None:
        """
        Args:
            name: of the reward.
            reward: called where it stands.
        """
        self._name, self._reward = name, reward

    def check(self) -> None:
        """It runs where it stands."""

    def start(self) -> None:
        """Let the reward load what it needs."""
        self._reward.start()

    def close(self) -> None:
        """Let the reward give back what it has loaded."""
        self._reward.close()

    def begin(self, rollout: Rollout) -> Begun:
        """Make the call; an exception is the failure of all rows."""
        self._reward.start()
        try:
            # a copy, since what is written into it would be trained on
            with only_this_process():
                value = self._reward.score(copy.deepcopy(rollout))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            failed = all_failed(describe(error), rollout)
            return Begun(lambda: failed)
        scores = from_tensor(self._name, value, rollout)
        return Begun(lambda: scores)


class _CachedCalls:
    """Calls of which some were answered before, or are asked twice now."""

    def __init__(self, runner: Runner, cache: ScoreCache, calls: Sequence[Call]) -> None:
        self._cache, self._keys = cache, cache.keys(calls)
        self._known = {key: answer for key in dict.fromkeys(self._keys) if (answer := cache.get(key)) is not None}
        self._new = {key: call for key, call in zip(self._keys, calls, strict=True) if key not in self._known}
        self.hits = len(calls) - len(self._new)
        self._pending = runner.submit(list(self._new.values()))

    def result(self) -> list[Answer]:
        answers = self._known | dict(zip(self._new, self._pending.result(), strict=True))
        for key in self._new:
            self._cache.put(key, answers[key])
        return [answers[key] for key in self._keys]


def runner_of(reward: RowReward) -> Runner:
    """The runner that makes the calls of a reward, by its `runs`."""
    if isinstance(reward, AsyncReward):
        from lightrl.rewards.event_loop import AsyncRunner

        return AsyncRunner(reward)
    if reward.runs == "process":
        from lightrl.rewards.killable_workers import WorkerPool

        return WorkerPool(reward)
    if reward.runs == "inline":
        return InlineRunner(reward)
    raise ValueError(f"{type(reward).__name__} runs {reward.runs!r}, expected inline or process; what awaits is a subclass of AsyncReward")
