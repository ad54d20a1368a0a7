"""The contract of every objective."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from lightrl.parts.base import unpack
from lightrl.parts.objective import LabelledObjective, Likelihood, Objective, PairObjective
from lightrl.statistic import Statistics
from lightrl_workshop.checks.check import (
    BrokenContract,
    Make,
    contract_check,
    contract_check_on,
    expect,
    expect_same,
    expect_shape,
    expect_statistics,
)
from lightrl_workshop.checks.examples import shuffled

KIND = "objective"


@dataclass(frozen=True)
class ObjectiveRows:
    """n rows: both completions of pairs; of labelled completions the first ones, every other one good."""

    chosen: Likelihood
    """The better ones."""
    rejected: Likelihood
    """The worse ones."""

    def select(self, rows: list[int]) -> ObjectiveRows:
        """These rows, in this order."""
        return ObjectiveRows(self.chosen.select(torch.tensor(rows)), self.rejected.select(torch.tensor(rows)))

    @property
    def good(self) -> Tensor:
        """`[n]` bool: the labels."""
        return self.chosen.tokens % 2 == 0

    def __len__(self) -> int:
        return len(self.chosen.logprob)


def examples() -> Iterator[ObjectiveRows]:
    """Examples, smallest first; of one row, of near and far apart completions, and of very likely ones."""
    for seed, (n, spread) in enumerate([(1, 0.1), (2, 0.1), (4, 1.0), (7, 5.0), (5, 40.0)]):
        generator = torch.Generator().manual_seed(seed)
        yield ObjectiveRows(_likelihood(n, spread, generator), _likelihood(n, spread, generator))
    yield ObjectiveRows(*(Likelihood(torch.tensor([-1e-6]), torch.tensor([3.0]), torch.tensor([-1.0])) for _ in range(2)))


def _likelihood(n: int, spread: float, generator: torch.Generator) -> Likelihood:
    tokens = torch.randint(1, 9, (n,), generator=generator).float()
    logprob = -tokens * (0.05 + torch.rand(n, generator=generator))
    return Likelihood(logprob, tokens, logprob + spread * torch.randn(n, generator=generator))


def asked(part: Objective, rows: ObjectiveRows) -> ObjectiveRows:
    """The rows with no more than the part says that it needs."""
    if "ref_logprobs" in part.needs:
        return rows
    return ObjectiveRows(replace(rows.chosen, reference=None), replace(rows.rejected, reference=None))


def losses(part: Objective, rows: ObjectiveRows) -> tuple[Tensor, Statistics, Tensor, Tensor]:
    """The loss and the statistics per row, and the gradients with respect to the log-probs of both completions."""
    one, other = (replace(side, logprob=side.logprob.clone().requires_grad_()) for side in (rows.chosen, rows.rejected))
    if isinstance(part, PairObjective):
        found, statistics = unpack(part.loss(one, other))
    elif isinstance(part, LabelledObjective):
        found, statistics = unpack(part.loss(one, rows.good))
    else:
        raise BrokenContract("it must be a PairObjective or a LabelledObjective")
    expect_shape(found, [len(rows)], "the loss", example=rows)
    gradients = torch.autograd.grad(found.sum(), [one.logprob, other.logprob], allow_unused=True)
    first, second = (torch.zeros(len(rows)) if gradient is None else gradient for gradient in gradients)
    return found.detach(), statistics, first, second


def prepared(part: Objective, rows: ObjectiveRows) -> ObjectiveRows:
    """The rows with the numbers that the part computes before a step, if any."""
    found: dict[str, Tensor] = {}
    if isinstance(part, PairObjective) and part.needs_step:
        found = part.from_step(rows.chosen, rows.rejected)
    if isinstance(part, LabelledObjective) and part.needs_step:
        found = part.from_step(rows.chosen, rows.good)
    if isinstance(part, LabelledObjective) and part.needs_mismatched:
        found |= part.from_mismatched(rows.rejected)
    each = {name: value.expand(len(rows)) for name, value in found.items()}
    return ObjectiveRows(replace(rows.chosen, prepared=each), replace(rows.rejected, prepared=each))


@contract_check_on(KIND, "each row gets a finite loss and a reward, computed from what it needs", lambda part: examples())
def shapes(make: Make[Objective], whole: ObjectiveRows) -> None:
    part = make()
    rows = asked(part, whole)
    try:
        found, statistics, first, second = losses(part, prepared(part, rows))
        reward = part.reward(rows.chosen)
    except (RuntimeError, TypeError, AttributeError) as error:
        raise BrokenContract(f"with only {sorted(part.needs)} there, as its `needs` says, it raises {error!r}", example=rows) from error
    expect_shape(reward, [len(rows)], "the reward", example=rows)
    expect_statistics(statistics, len(rows), 0, example=rows)
    for name, value in (("loss", found), ("reward", reward), ("gradient", first), ("gradient", second)):
        expect(value.isfinite(), f"the {name} must be finite", found=value, example=rows)


@contract_check_on(KIND, "rows have no influence on each other", lambda part: examples())
def rows_apart(make: Make[Objective], whole: ObjectiveRows) -> None:
    """In another order, and in micro-batches of one row, each gets the same loss and gradient, given what was prepared."""
    part = make()
    rows = asked(part, whole)
    ready = prepared(part, rows)
    found, _, first, second = losses(part, ready)
    order = shuffled(len(rows))
    for chosen in (order, *([i] for i in range(len(rows)))):
        own, _, one, other = losses(make(), ready.select(chosen))
        expect_same(found[chosen], own, f"rows {chosen} by themselves get another loss", example=rows)
        expect_same(first[chosen], one, f"rows {chosen} by themselves get another gradient", example=rows)
        expect_same(second[chosen], other, f"rows {chosen} by themselves get another gradient", example=rows)


@contract_check(KIND, "where the policy is the reference, it makes good completions likelier and no bad one")
def sign(make: Make[Objective]) -> None:
    """Completions that are far enough apart, or nearly certain, may be left alone."""
    raised = False
    for whole in examples():
        part = make()
        rows = ObjectiveRows(*(replace(side, reference=side.logprob.clone()) for side in (whole.chosen, whole.rejected)))
        _, _, first, second = losses(part, prepared(part, asked(part, rows)))
        if isinstance(part, LabelledObjective):
            first, second = first[rows.good], first[~rows.good]
        expect(first <= 0, "descent makes a good completion less likely", gradient=first, example=rows)
        expect(second >= 0, "descent makes a bad completion likelier", gradient=second, example=rows)
        raised = raised or bool((first < 0).any())
    expect(raised, "there is no example in which descent makes a good completion likelier")


@contract_check_on(KIND, "its preparation does not depend on the order of rows", lambda part: examples())
def preparation(make: Make[Objective], rows: ObjectiveRows) -> None:
    """Nor has it a gradient."""
    part = make()
    order = shuffled(len(rows))
    before, after = prepared(part, rows).chosen.prepared, prepared(make(), rows.select(order)).chosen.prepared
    expect(before.keys() == after.keys(), "rows in another order prepare something else", before=before, after=after)
    for name, value in before.items():
        expect_same(value[order], after[name], f"rows in another order prepare another {name!r}", example=rows)
        expect(not value.requires_grad, f"what is prepared has no gradient, but {name!r} has")
