"""The contract of every clip scheme."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from lightrl.parts.clip import ClipScheme, Surrogate
from lightrl_workshop.checks.check import Make, contract_check, expect, expect_same, expect_shape, expect_statistics
from lightrl_workshop.checks.examples import Micro, brief, shuffled
from lightrl_workshop.checks.steps import micros_for

KIND = "clip scheme"


def surrogate(part: ClipScheme, micro: Micro) -> tuple[Surrogate, Tensor]:
    """The surrogate of a micro-batch, and the gradient of its summed loss with respect to the log-ratio."""
    log_ratio = micro.log_ratio.clone().requires_grad_()
    found = part.given(micro.extras).surrogate(log_ratio, micro.advantages, micro.old_logprobs, micro.mask)
    expect(isinstance(found, Surrogate), f"surrogate() must return a Surrogate, got {type(found).__name__}")
    chosen = torch.where(micro.mask, found.loss, torch.zeros_like(found.loss)).sum()
    if not chosen.requires_grad:
        return found, torch.zeros_like(log_ratio)
    (gradient,) = torch.autograd.grad(chosen, log_ratio, allow_unused=True)
    return found, torch.zeros_like(log_ratio) if gradient is None else gradient


@contract_check(KIND, "it returns a loss and two masks per token")
def shapes(make: Make[ClipScheme]) -> None:
    """`[n, L]` each; finite where there is a loss."""
    for micro in micros_for(make()):
        found, gradient = surrogate(make(), micro)
        size = list(micro.mask.shape)
        masks = {"clipped_low": found.clipped_low, "clipped_high": found.clipped_high, **found.shares}
        for name, value in {"loss": found.loss, **masks}.items():
            expect_shape(value, size, name, **brief(micro))
        expect(found.loss.is_floating_point(), f"the loss is {found.loss.dtype}")
        for name, value in masks.items():
            expect(value.dtype == torch.bool, f"{name} must be bool, got {value.dtype}")
        for name, value in (("loss", found.loss), ("gradient", gradient)):
            expect(value[micro.mask].isfinite(), f"the {name} must be finite where there is a loss", found=value, **brief(micro))
        expect_statistics(found.statistics, *size, **brief(micro))


@contract_check(KIND, "masked positions have no influence")
def masked(make: Make[ClipScheme]) -> None:
    """NaN there changes neither loss nor gradient elsewhere."""
    for micro in micros_for(make()):
        _expect_equal(make(), micro, micro.poisoned(), "NaN at masked positions leaks out")


@contract_check(KIND, "rows have no influence on each other")
def rows(make: Make[ClipScheme]) -> None:
    """In another order, and in micro-batches of one row, each gets the same."""
    for micro in micros_for(make()):
        order = shuffled(len(micro))
        _expect_equal(make(), micro.select(order), micro.select(order), "the same rows twice")
        whole, gradient = surrogate(make(), micro)
        for chosen in (order, *([i] for i in range(len(micro)))):
            found, own = surrogate(make(), micro.select(chosen))
            where, what = micro.mask[chosen], f"rows {chosen} by themselves get another"
            expect_same(whole.loss[chosen][where], found.loss[where], f"{what} loss", **brief(micro))
            expect_same(gradient[chosen][where], own[where], f"{what} gradient", **brief(micro))


@contract_check(KIND, "padding changes nothing")
def padding(make: Make[ClipScheme]) -> None:
    """Three more masked positions on the right."""
    for micro in micros_for(make()):
        wide, narrow = surrogate(make(), micro.padded(3)), surrogate(make(), micro)
        length = micro.mask.shape[1]
        expect_same(narrow[0].loss[micro.mask], wide[0].loss[:, :length][micro.mask], "padding changes the loss", **brief(micro))
        expect_same(narrow[1][micro.mask], wide[1][:, :length][micro.mask], "padding changes the gradient", **brief(micro))


@contract_check(KIND, "a positive advantage raises a token's probability and a negative one lowers it")
def sign(make: Make[ClipScheme]) -> None:
    """On-policy always, but for tokens that `prepare` has left out; off-policy never the other way."""
    for micro in micros_for(make()):
        for on_policy in (True, False):
            example = replace(micro, log_ratio=torch.zeros_like(micro.log_ratio)) if on_policy else micro
            push = (-surrogate(make(), example)[1] * example.advantages)[example.mask]
            if on_policy:
                upwards = (push > 0) | ((push == 0) & bool(make().prepares))
                expect(upwards, "at ratio 1 the gradient must go the way of the advantage", push=push, **brief(example))
            else:
                expect(push >= 0, "the gradient goes against the advantage", push=push, **brief(example))


@contract_check(KIND, "tokens reported as clipped have no gradient")
def clipped(make: Make[ClipScheme]) -> None:
    """And nothing is clipped on both sides."""
    for micro in micros_for(make()):
        found, gradient = surrogate(make(), micro)
        where = (found.clipped_low | found.clipped_high) & micro.mask
        expect(gradient[where] == 0, "a token reported as clipped has a gradient", gradient=gradient, clipped=where, **brief(micro))
        expect(~(found.clipped_low & found.clipped_high & micro.mask), "a token is clipped low and high at once", **brief(micro))


@contract_check(KIND, "silent_without_advantage is declared only if rows without an advantage have no gradient")
def silent(make: Make[ClipScheme]) -> None:
    """The core leaves such rows out."""
    for micro in micros_for(make()):
        if make().silent_without_advantage:
            example = replace(micro, advantages=torch.zeros_like(micro.advantages))
            gradient = surrogate(make(), example)[1]
            what = "silent_without_advantage is declared, but a row whose advantages are all 0 has a gradient"
            expect(gradient[example.mask] == 0, what, gradient=gradient, **brief(example))


@contract_check(KIND, "row_constant is declared if and only if all tokens of a row have one loss")
def row_constant(make: Make[ClipScheme]) -> None:
    """On every example."""
    constant = True
    for micro in micros_for(make()):
        loss = surrogate(make(), micro)[0].loss
        for i in range(len(micro)):
            values = loss[i][micro.mask[i]]
            same = len(values) < 2 or bool((values - values[0]).abs().max() < 1e-6)
            expect(same or not make().row_constant, "row_constant is declared, but tokens of a row differ", loss=values, **brief(micro))
            constant = constant and same
    expect(not constant or make().row_constant, "all tokens of a row have one loss, so declare row_constant = True")


def _expect_equal(part: ClipScheme, one: Micro, other: Micro, what: str) -> None:
    (first, gradient), (second, own) = surrogate(part, one), surrogate(part, other)
    expect_same(first.loss[one.mask], second.loss[one.mask], f"{what} (loss)", **brief(one))
    expect_same(gradient[one.mask], own[one.mask], f"{what} (gradient)", **brief(one))
    for name in ("clipped_low", "clipped_high"):
        agrees = getattr(first, name)[one.mask] == getattr(second, name)[one.mask]
        expect(agrees, f"{what} ({name})", **brief(one))
