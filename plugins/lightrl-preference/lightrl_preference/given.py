"""Completions and rewards that the data give, for algorithms of rollouts that learn from whatever is scored: offline training."""

from collections.abc import Mapping
from typing import Any

from lightrl import Collection, Prompt, RowReward, Sampler, ScoredRollout


class GivenSampler(Sampler):
    """The completion of each prompt is that of the data, and the policy samples none.

    It is the sampler of an offline run of an algorithm for completions of others, such as `DROV`. The trainer computes their log-probs
    under the policy. Each prompt comes once per data epoch.
    """

    group_size = 1
    samples_all = False

    def __init__(self, column: str | None = None) -> None:
        """
        Args:
            column: that has the completions; null: the prompt's answer.
        """
        self.column = column

    def collect(self, collection: Collection) -> ScoredRollout:
        """See `Sampler.collect`. ValueError: a prompt has no completion in the data."""
        prompts = collection.draw(collection.prompts)
        return collection.score(collection.given(prompts, [given_completion(prompt, self.column) for prompt in prompts]))


class GivenReward(RowReward):
    """The number that the data have for their completion of a prompt; true is 1, false 0, and null none.

    It abstains from any other completion, as from those that an evaluation samples.
    """

    runs = "inline"

    def __init__(self, column: str = "label", completion: str | None = None, **kwargs: Any) -> None:
        """
        Args:
            column: that has the rewards.
            completion: the column that has the completions; null: the prompt's answer.
            **kwargs: the arguments of `RowReward`.
        """
        super().__init__(**kwargs)
        self.column, self.completion = column, completion

    def check_prompt(self, prompt: Prompt) -> None:
        """See `RowReward.check_prompt`: the columns must have a completion, and a number or null."""
        self.score(prompt, given_completion(prompt, self.completion))

    def score(self, prompt: Prompt, completion: str, **columns: object) -> float | None:
        if completion != given_completion(prompt, self.completion):
            return None
        value = prompt.columns.get(self.column, "")
        if value is None or isinstance(value, bool | int | float):
            return None if value is None else float(value)
        has = f"must hold a number, true or false, got {value!r:.60}" if self.column in prompt.columns else "is not there"
        raise ValueError(f"prompt {prompt.id!r}: column {self.column!r} {has}. It has: {', '.join(prompt.columns) or 'none'}. Set column")


def given_completion(prompt: Prompt, column: str | None) -> str:
    """The completion in a column, or the answer; a ValueError if there is none."""
    found = prompt.answer if column is None else prompt.columns.get(column)
    if found is None or isinstance(found, list | Mapping):
        there = "no answer that is a text" if column is None else f"no text in the column {column!r}"
        known = ", ".join(prompt.columns) or "none"
        raise ValueError(f"prompt {prompt.id!r} has {there}, which would be its completion. Its columns: {known}. Name one of them")
    return str(found)
