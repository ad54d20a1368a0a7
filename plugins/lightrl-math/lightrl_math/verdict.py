"""The scores of a reward that compares answers: one value each for right, wrong and nothing to compare."""

from typing import Any

from lightrl import RowReward


class Verdict(RowReward):
    """Scores a completion as correct, wrong or unparsable; subclasses say which it is."""

    def __init__(self, correct: float = 1.0, wrong: float = 0.0, unparsable: float = 0.0, **kwargs: Any) -> None:
        """
        Args:
            correct: the score of the right answer.
            wrong: the score of another answer.
            unparsable: the score of a completion in which no answer is found.
            **kwargs: weight and the other arguments of every reward.
        """
        super().__init__(**kwargs)
        self.correct, self.wrong, self.unparsable = correct, wrong, unparsable

    def verdict(self, right: bool | None) -> float:
        """The score of an answer that is right or wrong, or None if there is none."""
        if right is None:
            return self.unparsable
        return self.correct if right else self.wrong
