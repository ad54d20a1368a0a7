"""Scores of the tasks of reasoning-gym."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lightrl import Prompt, RowReward, required_package, without_thoughts
from lightrl_reasoning_gym.tasks import dataset, from_json

if TYPE_CHECKING:
    from reasoning_gym.dataset import ProceduralDataset


class ReasoningGymScore(RowReward):
    """The task's own score of the answer, in [0, 1]: 1 for a right one, and for some tasks a part of it for one that comes near.

    The answer is the text in the last `<answer>...</answer>` of a completion. The columns are those of `ReasoningGym`.

    Source: Stojanovski et al. 2025, *Reasoning Gym*, arXiv:2505.24760.
    """

    def __init__(self, tag: str | None = "answer", unreadable: float | None = None, **kwargs: Any) -> None:
        """
        Args:
            tag: the name of the tags around the answer; null: the whole completion is the answer.
            unreadable: the score of an answer for which the task's own scorer raises, as some do if it is not of the form that they
                expect; null: the row has failed.
            **kwargs: the arguments of `RowReward`.

        Raises:
            ValueError: an argument outside its range, or reasoning-gym is not installed.
        """
        required_package("reasoning_gym", "lightrl-reasoning-gym[full]", "ReasoningGymScore")
        super().__init__(**kwargs)
        self.tag, self.unreadable = tag, unreadable
        self._scorers: dict[str, ProceduralDataset] = {}

    def score(self, prompt: Prompt, completion: str, answer: Any, task: dict[str, Any], question: str, metadata: dict[str, Any]) -> float:
        entry = {"question": question, "answer": from_json(answer), "metadata": from_json(metadata)}
        scorer = self._scorer(task)
        try:
            return float(scorer.score_answer(self.answer_in(completion), entry=entry))
        except Exception:
            if self.unreadable is None:
                raise
            return self.unreadable

    def answer_in(self, completion: str) -> str | None:
        """The text between the last tags, as `reasoning_gym.utils.extract_answer` reads it, in one pass over what was not only thought."""
        completion = without_thoughts(completion)
        if self.tag is None:
            return completion.strip()
        opening, closing = f"<{self.tag}>", f"</{self.tag}>"
        found, start = None, completion.find(opening)
        while start >= 0 and (end := completion.find(closing, start)) >= 0:
            found = completion[start + len(opening) : end].strip()
            start = completion.find(opening, end)
        return found

    def _scorer(self, task: dict[str, Any]) -> ProceduralDataset:
        """The questions of the task, whose scorer may depend on its settings."""
        key = json.dumps(task, sort_keys=True)
        if key not in self._scorers:
            self._scorers[key] = dataset(task["name"], 1, 0, task["level"], task["config"])
        return self._scorers[key]

    def __setstate__(self, state: dict[str, Any]) -> None:
        # loading the package takes seconds: workers unpickle before the time of a call counts
        import reasoning_gym  # noqa: F401

        self.__dict__.update(state)
