"""Parts that are asked while an optimizer step is computed, and the rows of the step as they see them before."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from lightrl.ops.moments import Moments, moments
from lightrl.ops.random import token_uniforms
from lightrl.parts.base import Part
from lightrl.parts.objective import Likelihood
from lightrl.ranks import ALONE, Ranks
from lightrl.types import PolicyOutput, TrainingBatch


@dataclass(frozen=True)
class Minibatch:
    """This rank's rows of an optimizer step, and what all ranks know of theirs; its methods are collective."""

    rows: TrainingBatch
    """N rows."""
    output: PolicyOutput
    """Log-probs and outputs of the current policy, `[N, L]` each, without gradient; 0 outside the response. Those of a `TrunkOutput` are
    `[N, L, ...]`, prompts included."""
    step: int = 0
    """Optimizer steps of the run so far: the random numbers of each step are its own."""
    ranks: Ranks = ALONE
    """The ranks that share the step."""

    @property
    def completions(self) -> Likelihood:
        """Log-probs of the N completions under the current policy, the old one and the reference, summed as for a `RowLoss`."""
        return Likelihood.of(self.rows, self.output)

    @property
    def mask(self) -> Tensor:
        """`[N, L]` bool: sampled tokens that carry a loss."""
        return (self.rows.token_weight > 0) & self.rows.response_mask

    def total(self, mask: Tensor) -> int:
        """How many of the tokens of all ranks are chosen by the mask, `[N, L]` bool."""
        return int(self.ranks.total(mask.sum()[None].double())[0])

    def moments(self, values: Tensor) -> Moments:
        """Mean and spread of values `[N, L]` over the tokens of all ranks that carry a loss."""
        return moments(values[self.mask], self.ranks)

    def largest(self, values: Tensor, mask: Tensor, count: int, name: str) -> Tensor:
        """`[N, L]` bool: as `largest`, with random numbers of this name and step."""
        return largest(values, mask, count, self.uniforms(name), self.ranks)

    def uniforms(self, name: str) -> Tensor:
        """`[N, L]` float64 in [0, 1): one for each token, those of this step; see `token_uniforms`."""
        return token_uniforms(self.rows, f"{name}, step {self.step}")


def largest(values: Tensor, mask: Tensor, count: int, uniforms: Tensor, ranks: Ranks = ALONE) -> Tensor:
    """`[n, L]` bool: which tokens hold the `count` largest values of all ranks; collective.

    Values that differ by rounding alone, as those of the same token in another micro-batch do, are equal: of them the smallest random
    numbers go first. So the choice depends neither on the order of rows, nor on how they are cut or shared out.

    Args:
        values: `[n, L]`; anything where the mask is False.
        mask: `[n, L]` bool, tokens that may be chosen.
        count: of tokens over all ranks, the same on each; all where there are fewer.
        uniforms: `[n, L]` random numbers.
        ranks: that hold the other tokens.
    """
    keys, numbers = _rounded(values[mask]), uniforms[mask]
    order = _order(keys, numbers)[: max(count, 0)]
    every = ranks.gather((keys[order].cpu(), numbers[order].cpu()))
    all_keys, all_numbers = (torch.cat([found[i] for found in every]) for i in range(2))
    chosen = torch.zeros_like(mask)
    last = _order(all_keys, all_numbers)[: max(count, 0)][-1:].tolist()
    if last:
        key, number = all_keys[last[0]].to(keys), all_numbers[last[0]].to(numbers)
        chosen[mask] = (keys > key) | ((keys == key) & (numbers <= number))
    return chosen


def _order(keys: Tensor, numbers: Tensor) -> Tensor:
    """Indices by falling key, and among equal keys by rising number."""
    by_number = torch.argsort(numbers, stable=True)
    return by_number[torch.argsort(keys[by_number], descending=True, stable=True)]


def _rounded(values: Tensor) -> Tensor:
    """The values with half of the digits that their type has."""
    mantissa, exponent = torch.frexp(values)
    scale = torch.finfo(values.dtype).eps ** -0.5
    return torch.ldexp((mantissa * scale).round() / scale, exponent)


Extras = Mapping[str, Tensor]
"""`[n]`, `[n, L]` or `[n, L, ...]` each, by name."""


class StepPart(Part):
    """A part that sees the micro-batches of an optimizer step."""

    reads_policy: bool = True
    """`prepare` reads the current policy in `minibatch.output`; False: that has the old log-probs and no outputs."""
    steers: frozenset[str] = frozenset()
    """Names of extras `[N, L, ...]` that travel with the tokens through the policy in every forward pass of a step: its layers are given
    `[P, ...]` under the same name, of each of the P positions that run; that of token t is given to the position that predicts it."""

    @property
    def sees_steps(self) -> bool:
        return True

    def prepare(self, minibatch: Minibatch) -> Extras:
        """`[N]` or `[N, L]` for each name of `gives`, from all rows of a step, those of other ranks and micro-batches included.

        Asked before the first backward pass if there are such names, with this rank's rows under the current policy, and sums over all
        ranks. It costs one more forward pass in each step, without gradient, if it reads the policy.
        """
        return {}

    def given(self, extras: Extras) -> Self:
        """A copy of the part, which the core asks, with the extras of a micro-batch and the outputs of its policy, with gradient."""
        copied = copy.copy(self)
        vars(copied)["_extras"] = extras
        return copied

    @property
    def extras(self) -> Extras:
        """All extras of the micro-batch that the part is asked about; none of a part that was not `given` any."""
        found: Extras = vars(self).get("_extras", {})
        return found

    def extra(self, name: str) -> Tensor:
        """An extra `[n]` or `[n, L]` that is needed or prepared, or an output, of the micro-batch; a RuntimeError if nobody left it."""
        if name not in self.extras:
            known = ", ".join(self.extras) or "none"
            raise RuntimeError(f"{type(self).__name__} reads the extra {name!r}, and there is {known}: have it in needs, gives or outputs")
        return self.extras[name]
