"""The contract of every clip scheme."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from lightrl.parts.clip import ClipScheme, Surrogate
from lightrl_workshop.checks.check import Make, contract_check_on, expect, expect_shape, expect_statistics
from lightrl_workshop.checks.examples import Micro, brief
from lightrl_workshop.checks.steps import micros_for
from lightrl_workshop.checks.token_numbers import row_constant_check, rows_apart_checks

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


@contract_check_on(KIND, "it returns a loss and two masks per token", micros_for)
def shapes(make: Make[ClipScheme], micro: Micro) -> None:
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


def all_numbers(part: ClipScheme, micro: Micro) -> Tensor:
    """`[n, L, 4]`: loss, gradient, and what is clipped, low and high."""
    found, gradient = surrogate(part, micro)
    return torch.stack([found.loss.detach(), gradient, found.clipped_low.to(gradient), found.clipped_high.to(gradient)], -1)


rows_apart_checks(KIND, all_numbers, ("log_ratio", "advantages"))


@contract_check_on(KIND, "a positive advantage raises a token's probability and a negative one lowers it", micros_for)
def sign(make: Make[ClipScheme], micro: Micro) -> None:
    """On-policy always, but for tokens that `prepare` has left out; off-policy never the other way."""
    for on_policy in (True, False):
        example = replace(micro, log_ratio=torch.zeros_like(micro.log_ratio)) if on_policy else micro
        push = (-surrogate(make(), example)[1] * example.advantages)[example.mask]
        if on_policy:
            upwards = (push > 0) | ((push == 0) & bool(make().gives))
            expect(upwards, "at ratio 1 the gradient must go the way of the advantage", push=push, **brief(example))
        else:
            expect(push >= 0, "the gradient goes against the advantage", push=push, **brief(example))


@contract_check_on(KIND, "tokens reported as clipped have no gradient", micros_for)
def clipped(make: Make[ClipScheme], micro: Micro) -> None:
    found, gradient = surrogate(make(), micro)
    where = (found.clipped_low | found.clipped_high) & micro.mask
    expect(gradient[where] == 0, "a token reported as clipped has a gradient", gradient=gradient, clipped=where, **brief(micro))
    expect(~(found.clipped_low & found.clipped_high & micro.mask), "a token is clipped low and high at once", **brief(micro))


@contract_check_on(KIND, "silent_without_advantage is declared only if rows without an advantage have no gradient", micros_for)
def silent(make: Make[ClipScheme], micro: Micro) -> None:
    """The core leaves such rows out."""
    if make().silent_without_advantage:
        example = replace(micro, advantages=torch.zeros_like(micro.advantages))
        gradient = surrogate(make(), example)[1]
        what = "silent_without_advantage is declared, but a row whose advantages are all 0 has a gradient"
        expect(gradient[example.mask] == 0, what, gradient=gradient, **brief(example))


row_constant_check(KIND, lambda part, micro: surrogate(part, micro)[0].loss, "loss")
