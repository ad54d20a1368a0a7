"""The contract of every aggregation."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from lightrl.parts.aggregation import Aggregation
from lightrl.parts.base import unpack
from lightrl.types import Denominators
from lightrl_workshop.checks.check import Make, contract_check, contract_check_on, expect, expect_same, expect_shape
from lightrl_workshop.checks.examples import Micro, micros, shuffled

KIND = "aggregation"


def counts(step: Micro) -> Denominators:
    """The denominators of a step that is this micro-batch."""
    filled = step.token_weight.sum(1) > 0
    prompts = len(torch.unique(step.group[filled]))
    return Denominators(float(step.token_weight.sum()), float(filled.sum()), float(len(step)), float(prompts))


def weights(make: Make[Aggregation], micro: Micro, whole: Micro | None = None) -> Tensor:
    """Weights of a micro-batch, with the denominators of the whole step."""
    found: Tensor
    found, _ = unpack(make().weights(micro.token_weight, micro.group, counts(micro if whole is None else whole)))
    expect_shape(found, list(micro.mask.shape), "the weights", token_weight=micro.token_weight)
    return found


@contract_check_on(KIND, "tokens with a loss weigh more than 0 and others 0", lambda part: micros())
def positive(make: Make[Aggregation], micro: Micro) -> None:
    found = weights(make, micro)
    expect(found.isfinite(), "weights must be finite", weights=found, token_weight=micro.token_weight)
    expect((found > 0) == micro.mask, "a weight must be above 0 where the token weight is, 0 elsewhere", weights=found, mask=micro.mask)


@contract_check_on(KIND, "a step in which everything is masked weighs 0", lambda part: micros())
def all_masked(make: Make[Aggregation], micro: Micro) -> None:
    empty = Micro(**{**vars(micro), "token_weight": torch.zeros_like(micro.token_weight), "mask": torch.zeros_like(micro.mask)})
    expect(weights(make, empty) == 0, "weights must be 0 where no token has a loss", weights=weights(make, empty))


@contract_check_on(KIND, "splitting a step into micro-batches and ranks changes nothing", lambda part: micros())
def splitting(make: Make[Aggregation], micro: Micro) -> None:
    whole = weights(make, micro)
    for chosen in (shuffled(len(micro)), *([i] for i in range(len(micro)))):
        own = weights(make, micro.select(chosen), micro)
        what = f"rows {chosen} by themselves weigh something else: use the denominators of the whole step"
        expect_same(whole[chosen], own, what, 1e-6, token_weight=micro.token_weight, group=micro.group)


@contract_check_on(KIND, "padding changes nothing", lambda part: micros())
def padding(make: Make[Aggregation], micro: Micro) -> None:
    wide = weights(make, micro.padded(3))[:, : micro.mask.shape[1]]
    expect_same(weights(make, micro), wide, "three padded positions change the weights", 1e-6, token_weight=micro.token_weight)


@contract_check(KIND, "divides_by_row_length is declared if and only if long rows weigh as much as short ones")
def divides(make: Make[Aggregation]) -> None:
    token_weight = torch.tensor([[1.0, 1, 1, 1], [1, 1, 0, 0]])
    micro = next(m for m in micros() if len(m) == 2)
    pair = Micro(**{**vars(micro), "token_weight": token_weight, "mask": token_weight > 0, "group": torch.zeros(2, dtype=torch.long)})
    rows = weights(make, pair).sum(1)
    same = bool((rows[0] - rows[1]).abs() < 1e-6)
    declared = make().divides_by_row_length
    expect(same == declared, f"divides_by_row_length is {declared}, and rows of 4 and 2 tokens weigh", weights_of_rows=rows)


@contract_check_on(KIND, "compares is declared if the weights depend on the number of prompts", lambda part: micros())
def counts_prompts(make: Make[Aggregation], micro: Micro) -> None:
    step = counts(micro)
    more = replace(step, prompts=step.prompts + 2)
    one, other = (unpack(make().weights(micro.token_weight, micro.group, given))[0] for given in (step, more))
    if not make().compares:
        what = "they differ with the number of prompts, which minibatches of rows count several times: declare compares"
        expect_same(one, other, what, 1e-6, token_weight=micro.token_weight)
