"""Completions of the policy beside those that a data set gives: the mixture of GKD."""

import random
from typing import Annotated

import torch
from annotated_types import Ge, Le

from lightrl import Collection, Prompt, Rollout, Sampler, ScoredRollout


class MixedSampler(Sampler):
    """The policy completes a share of the prompts, and of the others the completion is that of the data.

    A prompt is the policy's with probability lambda, which is decided anew each time that it is drawn. The choice depends on the seed, on
    the prompt's id and on the data epoch, so that it is the same for every number of ranks and after a resume. The paper makes one
    choice for a whole step; the expected gradient is the same, and each step holds both.

    Source: Agarwal et al. 2024 (GKD), arXiv:2306.13649, algorithm 1.
    """

    group_size = 1

    def __init__(self, student_share: Annotated[float, Ge(0), Le(1)] = 0.5, column: str | None = None, seed: int = 0) -> None:
        """
        Args:
            student_share: lambda, the share of the prompts that the policy completes, in [0, 1].
            column: that has the completions of the data, such as those that a teacher has written; null: the prompt's answer.
            seed: of the choice.
        """
        self.student_share, self.column, self.seed = student_share, column, seed
        self.samples_all = student_share == 1

    def collect(self, collection: Collection) -> ScoredRollout:
        """See `Sampler.collect`. ValueError: a prompt has no completion in the data."""
        prompts = collection.draw(collection.prompts)
        chosen = [self.by_student(prompt) for prompt in prompts]
        own = [prompt for prompt, student in zip(prompts, chosen, strict=True) if student]
        others = [prompt for prompt, student in zip(prompts, chosen, strict=True) if not student]
        sampled = collection.rollout(own, 1)
        given = collection.given(others, [self.completion(prompt) for prompt in others])
        collection.report("sampling/student_share", torch.tensor(chosen, dtype=torch.float32), "mean")
        return collection.score(Rollout.concat([sampled, given]))

    def by_student(self, prompt: Prompt) -> bool:
        """Whether the policy completes the prompt."""
        return random.Random(f"{self.seed}/{prompt.meta.get('epoch', 0)}/{prompt.id}").random() < self.student_share

    def completion(self, prompt: Prompt) -> str:
        """The completion of the data; a ValueError if there is none."""
        found = prompt.answer if self.column is None else prompt.columns.get(self.column)
        if found is None or isinstance(found, list | dict):
            there = "no answer that is a text" if self.column is None else f"no text in the column {self.column!r}"
            raise ValueError(
                f"prompt {prompt.id!r} has {there}, and MixedSampler takes completions of the data: set algorithm.sampler.column"
            )
        return str(found)
