"""A collection for tests of samplers, without a model: prompts, completions and scores are given, on one rank or several."""

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from lightrl.parts.sampler import Reduction
from lightrl.types import JSON, Outcome, Prompt, Rollout, ScoredRollout
from lightrl_workshop.experience import experience
from lightrl_workshop.ranks import Meeting


class ScriptedCollection:
    """A `Collection` whose completions score 0 and 1 in turn, those of `zero_variance` prompts always 1; or as `scores` gives them.

    The prompts of a rank are drawn in the order of their numbers, 0, 1, 2, ..., which are their `answer`, and begin again after `size`
    of them. The id has the rank before the number: `0-17`. A completion's text says how many the same prompt was given before it, in all
    rounds together.

    Example: `ScriptedCollection(prompts=1, scores=[[0.2, 0.2], [0.9, math.nan]])` has no differences for prompt 0, and a failure for
    prompt 1; prompt 2 scores as prompt 0 does.
    """

    def __init__(
        self,
        prompts: int,
        zero_variance: Sequence[int] = (),
        rank: int = 0,
        meeting: Meeting | None = None,
        scores: Sequence[Sequence[float]] | None = None,
        size: int = 10_000,
    ) -> None:
        """
        Args:
            prompts: groups that this rank's batch should hold.
            zero_variance: prompts, by number, whose completions all score 1.
            rank: of this collection; its prompts are numbered apart from other ranks'.
            meeting: shared by the collections of all ranks; None: there is one rank.
            scores: of each prompt, by number, those of its completions in the order in which it is given them; NaN: the reward failed,
                and the row is not scorable. Prompts and completions beyond begin at the first again. None: 0 and 1 in turn.
            size: prompts of each rank.

        Raises:
            ValueError: `scores` beside `zero_variance`, or without a score for a prompt.
        """
        if scores is not None and (zero_variance or not scores or not all(scores)):
            raise ValueError(
                f"scores must have a score for each of its prompts, and no zero_variance beside it; got {scores} and {zero_variance}"
            )
        self.prompts, self.zero_variance, self.rank, self.scores = prompts, frozenset(zero_variance), rank, scores
        self.reports: dict[str, list[Tensor | float]] = {}
        self._meeting = meeting if meeting is not None else Meeting(1)
        self._size = size
        self.size: int | None = size * self._meeting.ranks
        self._drawn = self._groups = 0
        self._given: Counter[str] = Counter()

    def draw(self, n: int) -> list[Prompt]:
        """The next n prompts."""
        self._meeting.exchange(self.rank, "draw", n)
        first, self._drawn = self._drawn, self._drawn + n
        return [self.prompt(f"{self.rank}-{i % self._size}") for i in range(first, self._drawn)]

    def prompt(self, name: str) -> Prompt:
        """The prompt with this id, of any rank."""
        return Prompt(id=name, text="ab", answer=int(name.partition("-")[2]))

    def rollout(self, prompts: Sequence[Prompt], n: int, temperature: float | None = None) -> Rollout:
        """n completions of two tokens for each prompt."""
        self._meeting.exchange(self.rank, "rollout")
        asked = [prompt for prompt in prompts for _ in range(n)]
        return self._rows(asked, [self._next(prompt) for prompt in asked], n)

    def given(self, prompts: Sequence[Prompt], completions: Sequence[str]) -> Rollout:
        """Rows with these completions, each a group of its own."""
        rows = self._rows(prompts, completions, 1)
        rows.rollout_logprobs = rows.rollout_logprobs.masked_fill(rows.response_mask, float("nan"))
        return rows

    def score(self, rollout: Rollout) -> ScoredRollout:
        """The rows with their given scores; a failed row is not scorable."""
        self._meeting.exchange(self.rank, "score")
        rows = enumerate(zip(rollout.prompts, rollout.completions, strict=True))
        scores = torch.tensor([self._score(i, prompt, text) for i, (prompt, text) in rows], dtype=torch.float32)
        failed = scores.isnan()
        return ScoredRollout(
            **{name: getattr(rollout, name) for name in Rollout.__dataclass_fields__},
            reward_parts={"score": scores},
            outcomes={"score": torch.where(failed, int(Outcome.ERROR), int(Outcome.VALUE))},
            scorable=~failed,
        )

    def rollout_and_score(self, prompts: Sequence[Prompt], n: int, slices: int = 1) -> ScoredRollout:
        """All prompts in one slice."""
        return self.score(self.rollout(prompts, n))

    def total(self, value: float) -> float:
        """The sum over ranks."""
        return float(sum(self._meeting.exchange(self.rank, "total", value)))

    def gather(self, value: JSON) -> list[JSON]:
        """The value of every rank."""
        return self._meeting.exchange(self.rank, "gather", value)

    def reward(self, scored: ScoredRollout) -> Tensor:
        """`[N]`: the only score, NaN where it failed."""
        return scored.reward_parts["score"]

    def report(self, name: str, value: Tensor | float, reduce: Reduction = "sum") -> None:
        """Keep the number that the sampler counted."""
        self.reports.setdefault(name, []).append(value)

    def _rows(self, prompts: Sequence[Prompt], completions: Sequence[str], group_size: int) -> Rollout:
        group = [self._groups + i // group_size for i in range(len(prompts))]
        self._groups += len(prompts) // group_size
        rows = experience([0.0] * len(prompts), lengths=[2] * len(prompts), group=group)
        rows.prompts, rows.completions = list(prompts), list(completions)
        return Rollout(**{name: getattr(rows, name) for name in Rollout.__dataclass_fields__})

    def _next(self, prompt: Prompt) -> str:
        self._given[prompt.id] += 1
        return str(self._given[prompt.id] - 1)

    def _score(self, row: int, prompt: Prompt, completion: str) -> float:
        if self.scores is None:
            return 1.0 if prompt.answer in self.zero_variance else float(row % 2)
        of_prompt = self.scores[int(prompt.answer) % len(self.scores)]
        return of_prompt[int(completion) % len(of_prompt)]
