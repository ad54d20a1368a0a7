"""The place where a reward scores rows, one call for each row or one for all of them, and the scores that need no call."""

from __future__ import annotations

import copy
import hashlib
import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace

from lightrl.parts.async_reward import AsyncReward
from lightrl.parts.function import Function
from lightrl.parts.reward import BatchReward, RowReward
from lightrl.rewards.reward_scores import from_tensor
from lightrl.rewards.row_call import Call, RowPerformer
from lightrl.types import Rollout
from lightrl.workers.calls import Answer, Done, Inline, Place, answered
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


class WholeRollouts(Place):
    """The training process, in which a batch reward is given all rows at once."""

    def __init__(self, name: str, reward: BatchReward) -> None:
        """
        Args:
            name: of the reward.
            reward: called where it stands.
        """
        self._name, self._reward = name, reward

    def start(self) -> None:
        """Let the reward load what it needs."""
        self._reward.start()

    def submit(self, calls: Sequence[Rollout]) -> Done:
        """Make the calls; values are `RewardScores`."""
        self._reward.start()
        return Done([self._scored(rollout) for rollout in calls])

    def close(self) -> None:
        """Let the reward give back what it has loaded."""
        self._reward.close()

    def _scored(self, rollout: Rollout) -> Answer:
        # a copy, since what is written into it would be trained on
        answer = answered(lambda: self._reward.score(copy.deepcopy(rollout)))
        return answer if answer.error is not None else replace(answer, value=from_tensor(self._name, answer.value, rollout))


class ScoreCache:
    """The last `size` answers of one reward; failures are not among them.

    It is no part of a checkpoint: it saves time and changes no score of a reward that says the same of the same completion, and it
    could outgrow the weights. A resumed run asks again and fills it.
    """

    def __init__(self, reward: RowReward) -> None:
        """
        Args:
            reward: whose class, `version` and arguments are part of every key.
        """
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
        """
        Args:
            place: where the others are made.
            cache: of the reward.
            calls: one per row.
        """
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
