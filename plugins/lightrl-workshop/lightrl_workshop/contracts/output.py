"""The contract of every output of the policy."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from lightrl.parts.base import Output, TrunkOutput
from lightrl.parts.output import Comparison
from lightrl_workshop.checks.check import Make, contract_check, expect, expect_same, expect_shape

KIND = "output"


def positions(part: Output) -> Iterator[tuple[Tensor, Tensor]]:
    """Logits `[k, V]` and sampled ids `[k]`, smallest first; the last have a certain token, and tokens that are never sampled.

    None for what comes from inside a trunk, and is made of no logits.
    """
    if isinstance(part, TrunkOutput):
        return
    generator = torch.Generator().manual_seed(0)
    for count, vocabulary in ((1, 2), (2, 3), (5, 7)):
        logits = 3 * torch.randn(count, vocabulary, generator=generator)
        yield logits, torch.randint(vocabulary, (count,), generator=generator)
    logits[0], logits[1, 1:4], ids = -torch.inf, -torch.inf, torch.zeros(count, dtype=torch.long)
    logits[0, 0] = 2.0
    yield logits, ids


def values(part: Output, logits: Tensor, ids: Tensor) -> Tensor:
    """Its numbers, of the expected shape; a comparison is one with a less certain policy."""
    found = part.checked(logits, 0.5 * logits, ids) if isinstance(part, Comparison) else part.compute(logits, ids)
    expect_shape(found, [len(ids)], "its value", logits=logits, ids=ids)
    return found


@contract_check(KIND, "it gives each position a finite number, in the type of the logits, and leaves them as they are")
def finite(make: Make[Output]) -> None:
    for logits, ids in positions(make()):
        for given in (logits, logits.double()):
            before = given.clone()
            found = values(make(), given, ids)
            expect(found.isfinite(), "its value must be finite", value=found, logits=logits, ids=ids)
            expect(found.dtype == given.dtype, f"its value is {found.dtype}, of logits in {given.dtype}", logits=logits)
            expect(bool((before == given).all()), "it writes over the logits, which others read after it", before=before, after=given)


@contract_check(KIND, "positions have no influence on each other")
def apart(make: Make[Output]) -> None:
    """Each by itself gets the same, as the core computes them in chunks."""
    for logits, ids in positions(make()):
        whole = values(make(), logits, ids)
        own = torch.cat([values(make(), logits[i : i + 1], ids[i : i + 1]) for i in range(len(ids))])
        expect_same(whole, own, "positions by themselves get other numbers", logits=logits, ids=ids)


@contract_check(KIND, "a constant added to the logits of a position changes nothing")
def normalised(make: Make[Output]) -> None:
    for logits, ids in positions(make()):
        shifted = values(make(), logits.double() + 5.0, ids)
        what = "the number is not one of the distribution: use logits.log_softmax(-1)"
        expect_same(values(make(), logits.double(), ids), shifted, what, logits=logits, ids=ids)


@contract_check(KIND, "its gradient is finite")
def gradient(make: Make[Output]) -> None:
    for logits, ids in positions(make()):
        read = logits.clone().requires_grad_()
        found = values(make(), read, ids).sum()
        if found.requires_grad:
            (slope,) = torch.autograd.grad(found, read)
            expect(slope.isfinite(), "its gradient must be finite", gradient=slope, logits=logits, ids=ids)


@contract_check(KIND, "it has a name")
def named(make: Make[Output]) -> None:
    name = getattr(make(), "name", None)
    expect(isinstance(name, str) and name.isidentifier(), f"name must be a word such as 'entropy', got {name!r}")
    expect(name not in ("logprobs", "values"), f"{name!r} is what the core calls something else")
