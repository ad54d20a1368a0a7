"""One reward with what stands around it: its gate, its cache, where it runs, and how often it may fail."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from lightrl.parts.async_reward import AsyncReward
from lightrl.parts.base import Part
from lightrl.parts.reward import BatchReward, Reward, RowReward
from lightrl.rewards.budget import ErrorBudget
from lightrl.rewards.cache import ScoreCache
from lightrl.rewards.calls import Answer, Call, Runner, calls_of, describe, named_arguments
from lightrl.rewards.gates import behind
from lightrl.rewards.inline import InlineRunner
from lightrl.rewards.values import Scored, all_failed, filled_in, from_answers, from_tensor
from lightrl.types import Rollout


class GuardedReward:
    """Asks one reward about rows, such that it can neither hang nor poison a run."""

    def __init__(self, name: str, reward: Reward) -> None:
        """
        Args:
            name: under which it is logged.
            reward: whichever.

        Raises:
            ValueError: it runs in processes and keeps state, of which each process would have its own.
        """
        self.name, self.reward, self.budget = name, reward, ErrorBudget(reward)
        if reward.runs == "process" and type(reward).state_dict is not Part.state_dict:
            raise ValueError(
                f"reward {name!r} ({type(reward).__name__}) keeps state, and each of its worker processes would have a copy of its own: "
                'set runs = "inline" in the class if it is quick and always returns, or runs: inline in the config'
            )
        self._runner = runner_of(reward) if isinstance(reward, RowReward) else None
        self._cache = ScoreCache(reward) if isinstance(reward, RowReward) and reward.cache else None
        self._names = named_arguments(reward) if isinstance(reward, RowReward) else None

    def start(self) -> None:
        """Get ready in the background."""
        if self._runner is not None:
            self._runner.start()
        elif isinstance(self.reward, BatchReward):
            self.reward.start()

    def close(self) -> None:
        """End processes and threads; they start again when they are needed."""
        if self._runner is not None:
            self._runner.close()
        elif isinstance(self.reward, BatchReward):
            self.reward.close()

    def ask(self, rollout: Rollout, gate: Scored | None) -> Question:
        """Begin with a rollout.

        Args:
            rollout: N rows.
            gate: what the gate said of them, if there is one.
        """
        return Question(self, rollout, gate)

    def begin(self, rollout: Rollout) -> tuple[Callable[[], Scored], Callable[[], int]]:
        """Begin with rows that are all to be scored; how to wait for the scores, and then how many were remembered."""
        if isinstance(self.reward, BatchReward):
            return self._batch(self.reward, rollout), lambda: 0
        assert self._runner is not None
        calls = calls_of(self._names, rollout.prompts, rollout.completions)
        if self._cache is None:
            pending = self._runner.submit(calls)
            return lambda: from_answers(self.name, pending.result(), rollout), lambda: 0
        remembered = _Remembered(self._runner, self._cache, calls)
        return lambda: from_answers(self.name, remembered.result(), rollout), lambda: remembered.hits

    def _batch(self, reward: BatchReward, rollout: Rollout) -> Callable[[], Scored]:
        reward.start()
        try:
            value: Any = reward.score(rollout)
        except Exception as error:
            failed = all_failed(describe(error), rollout)
            return lambda: failed
        scored = from_tensor(self.name, value, rollout)
        return lambda: scored


class Question:
    """What a reward has been asked about a rollout."""

    def __init__(self, guarded: GuardedReward, rollout: Rollout, gate: Scored | None) -> None:
        """
        Args:
            guarded: that is asked.
            rollout: N rows.
            gate: what its gate said of them, if it has one.
        """
        self.cached, self.waited = 0, 0.0
        self._guarded, self._rollout = guarded, rollout
        self._open: Tensor | None = None
        self._rest: list[Answer] = []
        started = time.perf_counter()
        if gate is not None:
            self._open, self._rest = behind(guarded.reward, gate)
        self._asked = rollout if self._open is None else rollout.select(self._open)
        # a reward that loads something on its first call need not do so for nothing
        begun = guarded.begin(self._asked) if len(self._asked) or gate is None else None
        self._scores: Callable[[], Scored] | None = None if begun is None else begun[0]
        self._hits: Callable[[], int] = (lambda: 0) if begun is None else begun[1]
        self.waited += time.perf_counter() - started

    def result(self) -> Scored:
        """Wait for the scores, and count them in the error budget."""
        started = time.perf_counter()
        rest = None if self._open is None else from_answers(self._guarded.name, self._rest, self._rollout)
        if self._scores is None:
            assert rest is not None
            return rest
        own = self._scores()
        self.cached = self._hits()
        self.waited += time.perf_counter() - started
        self._guarded.budget.add(own.failures)
        if rest is None or self._open is None:
            return own
        return filled_in(own, self._open, rest, self._rollout.response_mask)


class _Remembered:
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
    """What makes the calls of a reward, by its `runs`."""
    if isinstance(reward, AsyncReward):
        from lightrl.rewards.event_loop import AsyncRunner

        return AsyncRunner(reward)
    if reward.runs == "process":
        from lightrl.rewards.workers import WorkerPool

        return WorkerPool(reward)
    if reward.runs == "inline":
        return InlineRunner(reward)
    raise ValueError(f"{type(reward).__name__} runs {reward.runs!r}, expected inline or process; what awaits is a subclass of AsyncReward")
