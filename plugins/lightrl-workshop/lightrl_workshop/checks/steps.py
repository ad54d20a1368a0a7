"""Optimizer steps for parts that look at all rows of one before they are asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from lightrl.ops.random import token_uniforms
from lightrl.parts.base import Part
from lightrl.parts.step_part import Minibatch, StepPart
from lightrl.ranks import ALONE, Ranks
from lightrl.types import PolicyOutput, TrainingBatch
from lightrl_workshop.checks.examples import Micro, experiences, likely, micros, read_extras
from lightrl_workshop.experience import experience


def minibatch(part: StepPart, rows: TrainingBatch, ranks: Ranks = ALONE) -> Minibatch:
    """A step on the rows, under a policy that has moved a little; what it says of a row depends on nothing but the row."""

    def number(name: str) -> Tensor:
        return torch.where(rows.response_mask, token_uniforms(rows, name).to(rows.old_logprobs), 0.0)

    read = {output.name: likely(output, number(output.name)) for output in part.outputs}
    return Minibatch(rows, PolicyOutput(rows.old_logprobs + 0.3 * (number("log-probs") - 0.5), read), ranks=ranks)


def given(part: StepPart, rows: TrainingBatch) -> TrainingBatch:
    """The rows with every extra that a part reads or prepares."""
    read = read_extras(part, rows, token_uniforms(rows, "extras").to(rows.old_logprobs))
    rows = replace(rows, extras=rows.extras | read)
    return replace(rows, extras=rows.extras | dict(part.prepare(minibatch(part, rows))))


def experiences_for(part: object) -> Iterator[TrainingBatch]:
    """The examples of experiences with every extra that a part reads; one of optimizer steps has prepared its own, each a whole step."""
    for rows in experiences(part if isinstance(part, Part) else None):
        yield given(part, rows) if isinstance(part, StepPart) else rows


def micros_for(part: StepPart) -> Iterator[Micro]:
    """The examples of micro-batches, with every extra and output that a part reads or prepares; each is a whole step."""
    for micro in micros():
        yield step_of(part, micro)


def step_of(part: StepPart, micro: Micro) -> Micro:
    """A micro-batch with every extra and output that a part reads or prepares, as if it were a whole step."""
    rows = given(part, as_rows(micro))
    return replace(micro, extras=rows.extras | minibatch(part, rows).output.outputs)


def as_rows(micro: Micro) -> TrainingBatch:
    """A micro-batch as rows of a step."""
    nothing = torch.zeros_like(micro.advantages)
    return replace(
        experience([0.0] * len(micro)),
        input_ids=nothing.long(),
        attention_mask=torch.ones_like(micro.mask),
        response_mask=micro.mask,
        rollout_logprobs=micro.other_logprobs,
        group=micro.group,
        reward_parts={},
        outcomes={},
        token_rewards=nothing,
        step_ends=torch.zeros_like(micro.mask),
        token_weight=micro.token_weight,
        old_logprobs=micro.old_logprobs,
        advantages=micro.advantages,
    )
