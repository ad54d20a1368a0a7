"""The contract of every loss term."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from lightrl.parts.aggregation import Aggregation
from lightrl.parts.base import unpack
from lightrl.parts.loss_term import LossTerm
from lightrl.types import PolicyOutput, TrainingBatch
from lightrl_workshop.checks.check import BrokenContract, Make, contract_check, contract_check_on, expect, expect_same, expect_shape
from lightrl_workshop.checks.examples import brief, poisoned, shuffled
from lightrl_workshop.checks.steps import experiences_for
from lightrl_workshop.checks.token_numbers import whole_batch_checks

KIND = "loss term"


whole_batch_checks(KIND, lambda part, rows: part.weights(rows), of="its weights: ")


def outputs(rows: TrainingBatch, part: LossTerm) -> PolicyOutput:
    """A forward pass over the rows; outputs of the policy and values only if the part reads them."""
    generator = torch.Generator().manual_seed(len(rows))
    noise = [torch.rand(rows.old_logprobs.shape, generator=generator).to(rows.old_logprobs) for _ in range(3)]
    read = {output.name: noise[1].clone().requires_grad_() for output in part.outputs}
    return PolicyOutput((rows.old_logprobs - 0.3 * noise[0]).requires_grad_(), read, noise[2] if "values" in part.needs else None)


def loss(part: LossTerm, rows: TrainingBatch, output: PolicyOutput) -> Tensor:
    """The term's loss, of the expected shape."""
    found: Tensor
    found, _ = unpack(part.loss(rows, output))
    expect_shape(found, list(rows.response_mask.shape), "the loss", **brief(rows))
    return found


@contract_check_on(KIND, "each of its tokens gets a finite loss, computed from what it needs", experiences_for)
def shapes(make: Make[LossTerm], rows: TrainingBatch) -> None:
    part = make()
    try:
        found = loss(part, rows, outputs(rows, part))
    except (AssertionError, TypeError, AttributeError, RuntimeError) as error:
        if isinstance(error, BrokenContract):
            raise
        given = sorted({*part.needs, *(read.name for read in part.outputs)})
        raise BrokenContract(f"with only {given} there, as its `needs` and `outputs` say, it raises {error!r}") from error
    chosen = unpack(part.weights(rows))[0] * rows.response_mask > 0
    expect(found[chosen].isfinite(), "the loss must be finite on the tokens of its mask", loss=found, **brief(rows))


@contract_check_on(KIND, "rows and masked positions have no influence on each other", experiences_for)
def rows_apart(make: Make[LossTerm], rows: TrainingBatch) -> None:
    """In another order, alone in a micro-batch and with NaN at masked positions the loss is the same."""
    part = make()
    output = outputs(rows, part)
    chosen = unpack(part.weights(rows))[0] * rows.token_weight > 0
    whole = loss(part, rows, output)
    bad = loss(make(), replace(poisoned(rows), token_weight=rows.token_weight), output)
    expect_same(whole[chosen], bad[chosen], "NaN at masked positions leaks out", **brief(rows))
    changed = {"rows in another order get another loss": shuffled(len(rows))}
    changed |= {f"row {row} alone in a micro-batch gets another loss": [row] for row in range(len(rows))}
    for what, some in changed.items():
        values = None if output.values is None else output.values[some]
        read = {name: found[some] for name, found in output.outputs.items()}
        own = loss(make(), rows.select(some), PolicyOutput(output.logprobs[some], read, values))
        expect_same(whole[some][chosen[some]], own[chosen[some]], what, **brief(rows))


@contract_check(KIND, "with a coefficient of 0 it needs nothing")
def honest_needs(make: Make[LossTerm]) -> None:
    """Nothing is computed for a term that is switched off."""
    part = make()
    expect(isinstance(part.aggregation, Aggregation), f"aggregation must be an Aggregation, got {part.aggregation!r}")
    part.coefficient = 0.0
    needed = sorted({*part.needs, *(read.name for read in (*part.outputs, *part.old_outputs))})
    expect(not needed, f"with coefficient 0 it still needs {needed}")
