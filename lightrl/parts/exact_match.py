"""A reward for completions that must be the answer and nothing else."""

from __future__ import annotations

from lightrl.parts.reward import RowReward
from lightrl.prompt import Prompt


class ExactMatch(RowReward):
    """1 if the completion, stripped of surrounding white space, is the answer, else 0."""

    runs = "inline"

    def score(self, prompt: Prompt, completion: str, *, answer: object) -> float:  # type: ignore[override]
        if answer is None:
            raise ValueError(f"prompt {prompt.id!r} has no answer to compare with")
        return float(completion.strip() == str(answer).strip())

    def answer_in(self, completion: str) -> str | None:
        """The stripped completion; None if nothing is left."""
        return completion.strip() or None
