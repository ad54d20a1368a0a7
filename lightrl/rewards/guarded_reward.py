"""One reward, guarded so that it can neither stop nor spoil a run: by its gate, its cache, the place where it runs and its error budget."""

from __future__ import annotations

import time
from collections.abc import Sequence

from lightrl.parts.base import Part
from lightrl.parts.faulty_part import FaultyPartError
from lightrl.parts.reward import BatchReward, Reward, RowReward
from lightrl.rewards.gates import behind
from lightrl.rewards.reward_calls import CachedCalls, ScoreCache, WholeRollouts, place_of
from lightrl.rewards.reward_scores import RewardScores, all_failed, filled_in, from_answers
from lightrl.rewards.row_call import calls_of, named_arguments
from lightrl.types import Rollout
from lightrl.workers.calls import Answer, Done, Pending, Place
from lightrl.workers.error_budget import ErrorBudget


class GuardedReward:
    """Lets one reward score rows, so that it can neither hang a run nor fail in silence."""

    def __init__(self, name: str, reward: Reward) -> None:
        """
        Args:
            name: under which it is logged.
            reward: a row reward or a batch reward.

        Raises:
            ValueError: it is neither, or it runs in processes and keeps state, of which each process would have its own.
        """
        if not isinstance(reward, (RowReward, BatchReward)):
            raise ValueError(f"reward {name!r} is a {type(reward).__name__}, expected a RowReward or a BatchReward")
        if reward.runs == "process" and type(reward).state_dict is not Part.state_dict:
            raise ValueError(
                f"reward {name!r} ({type(reward).__name__}) keeps state, and each of its worker processes would have a copy of its own: "
                'set runs = "inline" in the class if it is quick and always returns, or runs: inline in the config'
            )
        self.name, self.reward, self.budget = name, reward, ErrorBudget(reward, "completions")
        self.silent, self.silence_told = True, False
        """It has abstained on every row so far; and the log says so."""
        self.place: Place
        """Where its calls are made."""
        self._cache: ScoreCache | None = None
        if isinstance(reward, RowReward):
            self.place, self._names = place_of(reward), named_arguments(reward)
            self._cache = ScoreCache(reward) if reward.cache else None
        else:
            self.place = WholeRollouts(name, reward)

    def submit(self, rollout: Rollout, gate: RewardScores | None) -> PendingScores:
        """Begin to score a rollout.

        Args:
            rollout: N rows.
            gate: the scores of the gate, if there is one.
        """
        return PendingScores(self, rollout, gate)

    def begin(self, rollout: Rollout) -> Pending | CachedCalls:
        """Make one call for each row that the cache does not know, or one for all rows."""
        if not isinstance(self.reward, RowReward):
            return self.place.submit([rollout])
        calls = calls_of(self._names, rollout)
        return self.place.submit(calls) if self._cache is None else CachedCalls(self.place, self._cache, calls)

    def scores(self, answers: Sequence[Answer], rollout: Rollout) -> RewardScores:
        """The checked scores that answers to `begin` stand for.

        Args:
            answers: to the calls; none: there was no row to ask about.
            rollout: that was scored.
        """
        if isinstance(self.reward, RowReward) or not answers:
            return from_answers(self.name, answers, rollout)
        (answer,) = answers
        scores: RewardScores = answer.value if answer.error is None else all_failed(answer.error, rollout)
        return scores

    def counts(self) -> dict[str, float]:
        """The numbers that the reward itself counts.

        Raises:
            FaultyPartError: they are no numbers.
        """
        counted = self.reward.counts()
        try:
            return {name: float(number) for name, number in counted.items()}
        except (AttributeError, TypeError, ValueError, RuntimeError, OverflowError) as error:
            raise FaultyPartError(f"reward {self.name!r} counts {str(counted)[:60]!r}, expected numbers by name ({error})") from error


class PendingScores:
    """The scores of one reward, while the rollout waits for them."""

    def __init__(self, guarded: GuardedReward, rollout: Rollout, gate: RewardScores | None) -> None:
        """
        Args:
            guarded: the reward.
            rollout: N rows.
            gate: the scores of its gate, if it has one.
        """
        started = time.perf_counter()
        self._guarded, self._rollout = guarded, rollout
        self._gate = None if gate is None else behind(guarded.reward, gate, rollout)
        self._asked = rollout if self._gate is None else rollout.select(self._gate[0])
        # a reward that loads something on its first call need not do so for nothing
        shut = self._gate is not None and not len(self._asked)
        self._pending = Done([]) if shut else guarded.begin(self._asked)
        self.cached = self._pending.hits if isinstance(self._pending, CachedCalls) else 0
        """Number of scores that were in the cache."""
        self.waited = time.perf_counter() - started
        """Seconds that the run has waited so far."""

    def result(self) -> RewardScores:
        """Wait for the scores, and count them in the error budget."""
        started = time.perf_counter()
        own = self._guarded.scores(self._pending.result(), self._asked)
        self.waited += time.perf_counter() - started
        self._guarded.budget.add(own.failures)
        if self._gate is None:
            return own
        rows, rest = self._gate
        return filled_in(own, rows, rest, self._rollout.response_mask)
