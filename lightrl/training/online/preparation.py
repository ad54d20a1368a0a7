"""Preparations of parts for an optimizer step: they look at all of its rows under the current policy, before the first backward pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from lightrl.algorithms.algorithm import Algorithm
from lightrl.parts.base import Part
from lightrl.parts.step_part import Extras, Minibatch, StepPart
from lightrl.training.online.networks import Networks, Outputs
from lightrl.types import PolicyOutput, ScoredRollout, TrainingBatch

LOGPROBS = "log-probs"
"""Their name beside outputs, whose names have no hyphen."""


def prepared(before: Minibatch, algorithm: Algorithm, current: Callable[[TrainingBatch], PolicyOutput]) -> TrainingBatch:
    """The rows of a step with the extras that parts prepare for it; as they are if none does. Collective.

    Args:
        before: the rows, with the old log-probs and no outputs.
        algorithm: whose parts prepare.
        current: log-probs and outputs of the current policy, `[N, L]` each; asked if a part reads them.
    """
    rows = before.rows
    preparing = [part for part in algorithm.parts.values() if isinstance(part, StepPart) and part.gives]
    if not preparing:
        return rows
    now = replace(before, output=current(rows)) if any(part.reads_policy for part in preparing) else before
    learnt: dict[str, Tensor] = {}
    for part in preparing:
        learnt |= expected(part, part.prepare(now if part.reads_policy else before))
    rows = replace(rows, extras=rows.extras | learnt)
    if algorithm.token_weight in preparing:
        rows = replace(rows, token_weight=torch.where(before.mask, rows.token_weight * algorithm.token_weight.step_weights(rows), 0.0))
    return rows


def current_output(rows: TrainingBatch, read: Outputs, networks: Networks) -> PolicyOutput:
    """Log-probs and outputs of the current policy for every sampled token, at the cost of a forward pass."""

    def compute(micro: ScoredRollout) -> dict[str, Tensor]:
        output = networks.outputs(micro, micro.host.response_mask, read)
        return {LOGPROBS: output.logprobs, **output.outputs}

    found = dict.fromkeys((LOGPROBS, *read), torch.zeros_like(rows.rollout_logprobs)) | networks.per_token(rows, compute)
    return PolicyOutput(found.pop(LOGPROBS), found)


def expected(part: Part, extras: Extras) -> Extras:
    """The extras that a part leaves; a ValueError if they are others than it says."""
    if extras.keys() != part.gives:
        raise ValueError(f"{type(part).__name__} says that it gives {sorted(part.gives)}, and has given {sorted(extras)}")
    return extras
