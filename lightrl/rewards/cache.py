"""Scores that are remembered, so that the same completion of the same prompt is scored once."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Sequence

from lightrl.parts.reward import RowReward
from lightrl.rewards.row_call import Answer, Call


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
