"""One reward, guarded by its gate, its cache, the place where it runs and its error budget."""

from __future__ import annotations

import copy
import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from lightrl.ops.moments import row_values
from lightrl.parts.base import FaultyPartError, Part
from lightrl.parts.function import Function
from lightrl.parts.reward import AsyncReward, BatchReward, Reward, RowReward
from lightrl.rewards.reward_scores import RewardScores, all_failed, failures_of, filled_in, from_answers, from_tensor
from lightrl.rewards.row_call import Call, RowPerformer, calls_of, named_arguments
from lightrl.types import Outcome, Rollout
from lightrl.workers.calls import Answer, Done, Inline, Pending, Place, answered
from lightrl.workers.error_budget import ErrorBudget
from lightrl.workers.program import WorkerProgram


def place_of(reward: RowReward) -> Place:
    """The place where the calls of a reward are made, by its `runs`."""
    if isinstance(reward, AsyncReward):
        from lightrl.rewards.dispatch import Dispatcher
        from lightrl.workers.loop_place import LoopPlace

        return LoopPlace(lambda: Dispatcher(reward), reward.timeout_s)
    if reward.runs == "process":
        from lightrl.workers.process_place import ProcessPlace

        # a plain function is named by its path, which is all that is pickled of it
        modules = [reward.path.rpartition(".")[0]] if isinstance(reward, Function) else []
        program = WorkerProgram(RowPerformer(reward), reward, "reward", "set runs: inline", reward.memory_mb, modules)
        return ProcessPlace(program, reward.workers, reward.timeout_s)
    if reward.runs == "inline":
        return Inline(RowPerformer(reward))
    raise ValueError(f"{type(reward).__name__} runs {reward.runs!r}, expected inline or process; what awaits is a subclass of AsyncReward")


class WholeRollouts(Inline):
    """The training process, in which a batch reward is given all rows at once."""

    def __init__(self, name: str, reward: BatchReward) -> None:
        super().__init__(self)
        self._name, self._reward = name, reward

    def start(self) -> None:
        self._reward.start()

    def submit(self, calls: Sequence[Rollout]) -> Done:
        """Make the calls; values are `RewardScores`."""
        self._reward.start()
        return super().submit(calls)

    def close(self) -> None:
        self._reward.close()

    def perform(self, call: Rollout) -> Answer:
        # a copy, since what is written into it would be trained on
        answer = answered(lambda: self._reward.score(copy.deepcopy(call)))
        return answer if answer.error is not None else replace(answer, value=from_tensor(self._name, answer.value, call))


class ScoreCache:
    """The last `size` answers of one reward; failures are not among them.

    It is no part of a checkpoint: it saves time and changes no score of a reward that says the same of the same completion, and it
    could outgrow the weights. A resumed run asks again and fills it.
    """

    def __init__(self, reward: RowReward) -> None:
        """`reward`: whose class, `version` and arguments are part of every key."""
        cls = type(reward)
        arguments = {name: value for name, value in vars(reward).items() if not name.startswith("_")}
        self._reward = json.dumps([cls.__module__, cls.__qualname__, reward.version, arguments], default=repr, sort_keys=True)
        self._size = reward.cache
        self._answers: OrderedDict[str, Answer] = OrderedDict()

    def keys(self, calls: Sequence[Call]) -> list[str]:
        """One key per call: of the reward, the prompt with its id, the completion and the columns."""
        of_prompt: dict[tuple[int, int], str] = {}
        keys = []
        for prompt, completion, columns in calls:
            asked = of_prompt.get((id(prompt), id(columns)))
            if asked is None:
                asked = of_prompt[id(prompt), id(columns)] = json.dumps([prompt.to_json(), columns], default=repr, sort_keys=True)
            keys.append(hashlib.sha256("\0".join((self._reward, asked, completion)).encode("utf-8", "surrogatepass")).hexdigest())
        return keys

    def get(self, key: str) -> Answer | None:
        """The answer that is remembered under a key, if there is one."""
        if key in self._answers:
            self._answers.move_to_end(key)
        return self._answers.get(key)

    def put(self, key: str, answer: Answer) -> None:
        """Remember an answer, and forget the one that was not asked for the longest."""
        if answer.error is None:
            self._answers[key] = answer
            self._answers.move_to_end(key)
            if len(self._answers) > self._size:
                self._answers.popitem(last=False)


class CachedCalls:
    """Calls of which some were answered before, or are asked twice now."""

    def __init__(self, place: Place, cache: ScoreCache, calls: Sequence[Call]) -> None:
        self._cache, self._keys = cache, cache.keys(calls)
        self._known = {key: answer for key in dict.fromkeys(self._keys) if (answer := cache.get(key)) is not None}
        self._new = {key: call for key, call in zip(self._keys, calls, strict=True) if key not in self._known}
        self.hits = len(calls) - len(self._new)
        """Number of scores that were in the cache."""
        self._pending = place.submit(list(self._new.values()))

    def result(self) -> list[Answer]:
        """Wait for the others: one answer per call, in order."""
        answers = self._known | dict(zip(self._new, self._pending.result(), strict=True))
        for key in self._new:
            self._cache.put(key, answers[key])
        return [answers[key] for key in self._keys]


class GuardedReward:
    """Lets one reward score rows; its failures are counted, and in workers and event loops its calls have a time limit."""

    def __init__(self, name: str, reward: Reward) -> None:
        """
        Raises:
            ValueError: it is no row or batch reward, or it runs in processes and keeps state, of which each process would have its own.
        """
        if not isinstance(reward, (RowReward, BatchReward)):
            raise ValueError(f"reward {name!r} is a {type(reward).__name__}, expected a RowReward or a BatchReward")
        if reward.runs == "process" and type(reward).state_dict is not Part.state_dict:
            raise ValueError(
                f"reward {name!r} ({type(reward).__name__}) keeps state, and each of its worker processes would have a copy of its own: "
                'set runs = "inline" in the class if it is quick and always returns, or runs: inline in the config'
            )
        self.name, self.reward = name, reward
        self.budget = ErrorBudget(reward.max_error_rate, reward.error_window, "completions")
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

    def begin(self, rollout: Rollout) -> Pending | CachedCalls:
        """Make one call for each row that the cache does not know, or one for all rows."""
        if not isinstance(self.reward, RowReward):
            return self.place.submit([rollout])
        calls = calls_of(self._names, rollout)
        return self.place.submit(calls) if self._cache is None else CachedCalls(self.place, self._cache, calls)

    def scores(self, answers: Sequence[Answer], rollout: Rollout) -> RewardScores:
        """The checked scores that answers to `begin` stand for. `answers`: to the calls; none: there was no row to ask about."""
        if isinstance(self.reward, RowReward) or not answers:
            return from_answers(self.name, answers, rollout)
        (answer,) = answers
        scores: RewardScores = answer.value if answer.error is None else all_failed(answer.error, rollout)
        return scores

    def counts(self) -> dict[str, float]:
        """The numbers that the reward itself counts; a FaultyPartError if they are none."""
        counted = self.reward.counts()
        try:
            return {name: float(number) for name, number in counted.items()}
        except (AttributeError, TypeError, ValueError, RuntimeError, OverflowError) as error:
            raise FaultyPartError(f"reward {self.name!r} counts {str(counted)[:60]!r}, expected numbers by name ({error})") from error


class PendingScores:
    """The scores of one reward, while the rollout waits for them."""

    def __init__(self, guarded: GuardedReward, rollout: Rollout, gate: RewardScores | None) -> None:
        started = time.perf_counter()
        self._guarded, self._rollout = guarded, rollout
        self._gate = None if gate is None else _behind(guarded.reward, gate, rollout)
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


def _behind(reward: Reward, gate: RewardScores, rollout: Rollout) -> tuple[Tensor, RewardScores]:
    """Numbers of the rows where the gate is open, and scores of all rows, which mean something where it is not."""
    raw = row_values(gate.part)
    opens = torch.where(raw.isnan(), -torch.inf, raw) > reward.gate_above
    abstained = gate.outcome == int(Outcome.ABSTAINED)
    failed = (gate.outcome == int(Outcome.ERROR)) | (gate.outcome == int(Outcome.TIMEOUT))
    outcome = torch.full_like(gate.outcome, int(Outcome.GATED))
    outcome = outcome.masked_fill(abstained, int(Outcome.ABSTAINED)).masked_fill(failed, int(Outcome.ERROR))
    part = torch.zeros_like(raw).masked_fill(abstained | failed, torch.nan)
    failures = failures_of(outcome, rollout, [f"its gate {reward.gate!r} failed"] * len(rollout))
    return opens.nonzero()[:, 0], RewardScores(part, outcome, failures)
