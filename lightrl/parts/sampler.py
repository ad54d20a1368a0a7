"""Samplers: which completions does the policy learn from?"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Literal, Protocol

from torch import Tensor

from lightrl.ops.moments import row_values
from lightrl.parts.base import Part
from lightrl.ranges import Count, GroupSize
from lightrl.ranks import Ranks
from lightrl.types import JSON, Prompt, Rollout, ScoredRollout, TrainingBatch

Reduction = Literal["mean", "sum", "max", "min"]
"""How reported numbers meet."""


class Collection(Protocol):
    """The tools of a sampler. What draws, completes, scores, sums or gathers is collective: every rank calls it equally often."""

    prompts: int
    """How many prompts (groups) this rank's batch should hold."""
    size: int | None
    """How many training prompts there are; None: their source is endless."""
    rank: int
    """The number of this rank, from 0: where its own value stands in what `gather` gives."""

    def draw(self, n: int) -> list[Prompt]:
        """The next n prompts of this rank, each once per data epoch over all ranks; n may differ from rank to rank."""

    def prompt(self, name: str) -> Prompt:
        """The training prompt with this id, whoever has drawn it; the order of `draw` stays as it is.

        Prompts of one `rollout` must differ over all ranks: completions of the same prompt on two of them would be the same ones.

        Raises:
            ValueError: there is none, or the source is endless.
        """

    def rollout(self, prompts: Sequence[Prompt], n: int, temperature: float | None = None) -> Rollout:
        """n completions for each prompt; no prompts give an empty rollout. Temperature 0: the likeliest tokens, not to be trained on."""

    def given(self, prompts: Sequence[Prompt], completions: Sequence[str]) -> Rollout:
        """Rows of completions without EOS that somebody else wrote, each of one prompt; no prompts give an empty rollout. Not collective.

        Their `rollout_logprobs` are NaN until the core has computed them: a sampler that uses this says `samples_all = False`.

        Raises:
            ValueError: a row is longer than the policy takes, or an environment would have to answer.
        """

    def score(self, rollout: Rollout) -> ScoredRollout:
        """The rollout with what each reward says of it."""

    def rollout_and_score(self, prompts: Sequence[Prompt], n: int, slices: int = 1) -> ScoredRollout:
        """`score(rollout(prompts, n))`, with the same numbers, in slices of prompts: while one is completed, the one before is scored."""

    def reward(self, scored: ScoredRollout) -> Tensor:
        """`[N]`: the weighted sum of each row's rewards, before any shaping; NaN where the row is not scorable."""

    def total(self, value: float) -> float:
        """The sum of a number over ranks, for decisions that all must share; collective."""

    def gather(self, value: JSON) -> list[JSON]:
        """A small JSON value of every rank, in the order of ranks, for choices that all must share; collective."""

    def report(self, name: str, value: Tensor | float, reduce: Reduction = "sum") -> None:
        """Log a number of this rank, or a tensor of them; they are reduced over the rollout and all ranks."""


class Sampler(Part):
    """Draws prompts, has them completed and scored, and decides what is kept."""

    group_size: int
    """Rows of each prompt in what `collect` returns, whatever else it has sampled of the prompt."""
    zero_variance: str = "keep"
    """The treatment of a zero-variance group, in a word: `keep`, or another verb."""
    samples_all: bool = True
    """The policy has sampled every row; False: some are from `Collection.given`, and the trainer computes the old log-probs of all rows."""

    def check(self, rewards: Sequence[str]) -> None:
        """Refuse, with a ValueError, settings that cannot work with rewards of these names; called once before training."""

    @abstractmethod
    def collect(self, collection: Collection) -> ScoredRollout:
        """The scored rows of this rank for one rollout, in whole groups of `group_size` rows.

        One raw reward in `reward_parts` decides whether a group has zero variance. The weighted sum cannot: a penalty for length or a
        bonus for form makes nearly all of its values differ, also in groups whose answers are all right or all wrong. Use the sum,
        `Collection.reward`, to rank groups or completions, and as a baseline. The rewards on tokens by shaping and a KL are added later
        and are not in it.
        """

    def commit(self, learnt: TrainingBatch, ranks: Ranks) -> None:
        """Called once the policy has learnt from a rollout, before the next one is collected: here a sampler remembers what it has seen.

        A checkpoint is written after it, and a run that is killed begins its rollout anew: what only `commit` changes is then the same
        as in a run that was never killed. With `rollouts_ahead` the rows are older than those that `collect` gave last. `ranks.gather`
        gives JSON values of all ranks; unless the class says `state_per_rank`, its state must be the same on each of them.
        """


class GroupSampler(Sampler):
    """Draws the rollout's prompts once and keeps everything."""

    def __init__(self, group_size: GroupSize = 8, slices: Count = 1) -> None:
        """
        Args:
            group_size: completions per prompt; at least 1.
            slices: parts in which the prompts are completed, slow rewards of one part running while the next is generated; no
                influence on what is sampled. At least 1, and 1 is best for rewards that are quicker than the policy.

        Raises:
            ValueError: group_size or slices below 1.
        """
        self.group_size, self.slices = group_size, slices

    def collect(self, collection: Collection) -> ScoredRollout:
        return collection.rollout_and_score(collection.draw(collection.prompts), self.group_size, self.slices)


def deciding_reward(rewards: Sequence[str], metric: str | None) -> str:
    """The raw reward that a sampler goes by: the one that `metric` names, or the only one; a ValueError if there is none or several."""
    if metric is not None and metric in rewards:
        return metric
    if metric is None and len(rewards) == 1:
        return rewards[0]
    problem = f"{metric!r}, and no reward is named so" if metric is not None else "null, and there is not exactly one reward"
    there = f"there are {', '.join(rewards)}: type --model.algorithm.sampler.metric {rewards[0]}" if rewards else "there is none"
    raise ValueError(f"algorithm.sampler.metric is {problem}: name the one that says whether a completion succeeded; {there}")


def metric_of(scored: ScoredRollout, metric: str | None) -> Tensor:
    """`[N]` f32: one raw reward of every row, as `deciding_reward` names it, a row's steps added up, NaN without a score."""
    return row_values(scored.reward_parts[deciding_reward(list(scored.reward_parts), metric)])
