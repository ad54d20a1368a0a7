"""Settings of the evaluation on held-out prompts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Gt, Le

from lightrl.parts.reward import Reward
from lightrl.ranges import Count, GroupSize, Temperature, refuse_outside


@dataclass(frozen=True)
class Evaluation:
    """Settings of validation and test; what is not given follows the engine's own sampling.

    Beside the rewards, it reports `avg@n` (share of right completions), `pass@k` for some k, and `maj@n` (is the most common
    answer right?), where n is `samples`; maj@n needs a reward that reads answers (`RowReward.answer_in`).
    """

    samples: GroupSize = 1
    """Completions per prompt, n."""
    temperature: Temperature | None = None
    """Divides the logits; 0 takes the likeliest token; None: as in training."""
    top_p: Annotated[float, Gt(0), Le(1)] | None = None
    """Keep the likeliest tokens whose probabilities add up to this; None: as in training."""
    max_new_tokens: Count | None = None
    """Limit on the tokens of a completion; None: as in training."""
    before_training: bool = True
    """Evaluate the policy once before its first step."""
    correct: str | None = None
    """Name of the reward that says whether a completion is right; None: the first one of the config."""
    right_above: float = 0.0
    """A completion is right if that reward's raw score is above this."""
    pass_at: list[int] | None = None
    """For which k to report pass@k, each in [1, samples]; None: 2, 4, 8, ... up to samples."""
    category: str | None = None
    """Column of the data by whose values the scores are also reported apart, as `categories/{value}/...`."""

    def __post_init__(self) -> None:
        refuse_outside(type(self), vars(self))
        wrong = [k for k in self.ks if not 1 <= k <= self.samples]
        if wrong:
            raise ValueError(
                f"evaluation.pass_at has {wrong}, but pass@k is estimated from evaluation.samples = {self.samples} completions: k must be "
                f"in [1, {self.samples}]; raise evaluation.samples"
            )

    @property
    def ks(self) -> list[int]:
        """For which k pass@k is reported."""
        if self.pass_at is not None:
            return self.pass_at
        return [2**i for i in range(1, self.samples.bit_length()) if 2**i <= self.samples]

    def correct_reward(self, rewards: Mapping[str, Reward]) -> str:
        """Name of the reward that says what is right.

        Args:
            rewards: of the run, by name.

        Raises:
            ValueError: there is no reward of the name in `correct`.
        """
        if self.correct is None:
            return next(iter(rewards))
        if self.correct not in rewards:
            raise ValueError(f"evaluation.correct is {self.correct!r}, which is no reward here. There are: {', '.join(rewards)}")
        return self.correct
