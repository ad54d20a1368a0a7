"""In a float64 run nothing is computed in float32: a constant that is rounded to it once keeps its error for good."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from lightrl_workshop.checks.examples import Micro, micros
from lightrl_workshop.checks.steps import experiences_for, micros_for, minibatch
from lightrl_workshop.contracts import aggregation, clip_scheme, importance_ratio, loss_term, objective, output, rollout_correction
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lightrl import (
    ChosenLikelihood,
    ClipScheme,
    GroupCentered,
    LabelledObjective,
    Likelihood,
    Objective,
    PairObjective,
    StepPart,
    Surrogate,
    TurnReturn,
)
from lightrl.parts.base import unpack
from lightrl.registry.classes import registry
from lightrl.types import PolicyOutput, TrainingBatch

ARGUMENTS: dict[str, dict[str, Any]] = {
    "AdvantageSum": {"advantages": {"outcome": GroupCentered(), "turns": TurnReturn()}, "scale": "batch"},
    "ConstantLength": {"length": 9},
    "MixedObjective": {"objectives": {"first": ChosenLikelihood()}},
    "OutcomeShaping": {"missing_eos_penalty": 0.3},
}


class OnlyFloat64(TorchDispatchMode):
    """Raises at the first operation whose result is a float of another type."""

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = operation(*args, **(kwargs or {}))
        rounded = [leaf.dtype for leaf in tree_leaves(out) if isinstance(leaf, Tensor) and leaf.is_floating_point()]
        assert set(rounded) <= {torch.float64}, f"{operation} gives {rounded}"
        return out


def doubled(value: Any) -> Any:
    """The same with every tensor of floats in float64."""
    if isinstance(value, dict):
        return {name: doubled(part) for name, part in value.items()}
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value


def exact_micros(part: Any) -> list[Micro]:
    found = micros_for(part) if isinstance(part, StepPart) else micros()
    return [Micro(**{f.name: doubled(getattr(micro, f.name)) for f in fields(micro)}) for micro in found]


def exact_experiences(part: Any) -> list[TrainingBatch]:
    return [replace(rows, **{f.name: doubled(getattr(rows, f.name)) for f in fields(rows)}) for rows in experiences_for(part)]


def of_objective(part: Objective, rows: objective.ObjectiveRows) -> None:
    sides = [Likelihood(doubled(s.logprob), doubled(s.tokens), doubled(s.reference)) for s in (rows.chosen, rows.rejected)]
    asked = objective.asked(part, objective.ObjectiveRows(*sides))
    asked.chosen.logprob.requires_grad_()
    with OnlyFloat64():
        asked = objective.prepared(part, asked)
        if isinstance(part, LabelledObjective):
            found, _ = unpack(part.loss(asked.chosen, asked.good))
        elif isinstance(part, PairObjective):
            found, _ = unpack(part.loss(asked.chosen, asked.rejected))
        found.sum().backward()
        part.reward(asked.chosen)


def of_loss_term(part: Any, rows: TrainingBatch) -> None:
    output = loss_term.outputs(rows, part)
    exact = PolicyOutput(output.logprobs.detach().double().requires_grad_(), doubled(output.outputs), doubled(output.values))
    with OnlyFloat64():
        part.weights(rows)
        loss_term.loss(part, rows, exact).sum()


PER_TOKEN: dict[str, Callable[[Any, Micro], Any]] = {
    "aggregation": lambda part, micro: aggregation.weights(lambda: part, micro),
    "clip scheme": clip_scheme.surrogate,
    "critic": lambda part, micro: part.loss(micro.values, micro.old_values, micro.returns),
    "importance ratio": importance_ratio.log_ratio,
    "KL": lambda part, micro: part.penalty(micro.logprobs, micro.other_logprobs, micro.log_ratio),
    "rollout correction": rollout_correction.weights,
}
WHOLE_BATCH: dict[str, Callable[[Any, TrainingBatch], Any]] = {
    "advantage": lambda part, rows: part.compute(rows),
    "critic": lambda part, rows: part.weights(rows),
    "reward shaping": lambda part, rows: part.rewards(rows, rows.token_rewards),
    "token weight": lambda part, rows: part.weights(rows),
}
KINDS = {*PER_TOKEN, *WHOLE_BATCH, "objective", "loss term", "output"}


def parts() -> list[Any]:
    return [pytest.param(kind, cls, id=cls.__name__) for kind in sorted(KINDS) for _, cls in registry().of_kind(kind)]


def check(kind: str, part: Any) -> None:
    for rows in exact_experiences(part) if isinstance(part, StepPart) and part.gives else ():
        with OnlyFloat64():
            part.prepare(minibatch(part, rows))
    for micro in exact_micros(part) if kind in PER_TOKEN else ():
        with OnlyFloat64():
            PER_TOKEN[kind](part, micro)
    for rows in exact_experiences(part) if kind in WHOLE_BATCH else ():
        with OnlyFloat64():
            WHOLE_BATCH[kind](part, rows)
    for rows in objective.examples() if kind == "objective" else ():
        of_objective(part, rows)
    for rows in exact_experiences(part) if kind == "loss term" else ():
        of_loss_term(part, rows)
    for logits, ids in output.positions(part) if kind == "output" else ():
        with OnlyFloat64():
            output.values(part, logits.double(), ids)


@pytest.mark.parametrize(("kind", "cls"), parts())
def test_a_part_computes_in_the_type_that_it_is_given(kind: str, cls: type[Any]) -> None:
    check(kind, cls(**ARGUMENTS.get(cls.__name__, {})))


class Rounded(ClipScheme):
    """Two temperatures, as a tensor of float32."""

    def surrogate(self, log_ratio: Tensor, advantages: Tensor, old_logprobs: Tensor, mask: Tensor) -> Surrogate:
        temperature = torch.where(advantages > 0, 1.0, 1.05).to(log_ratio.dtype)
        return Surrogate(-temperature * log_ratio.exp() * advantages, mask & False, mask & False)


def test_a_constant_of_float32_is_found() -> None:
    with pytest.raises(AssertionError, match=r"scalar_tensor.* gives \[torch\.float32\]"):
        check("clip scheme", Rounded())
