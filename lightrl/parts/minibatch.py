"""The rows of an optimizer step under the current policy, before the first backward pass."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from lightrl.ops.moments import Moments, moments
from lightrl.ops.random import token_uniforms
from lightrl.ops.ranked import largest
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
    def mask(self) -> Tensor:
        """`[N, L]` bool: sampled tokens that carry a loss."""
        return (self.rows.token_weight > 0) & self.rows.response_mask

    def total(self, mask: Tensor) -> int:
        """How many of the tokens of all ranks are chosen.

        Args:
            mask: `[N, L]` bool.
        """
        return int(self.ranks.total(mask.sum()[None].double())[0])

    def moments(self, values: Tensor) -> Moments:
        """Mean and spread over the tokens of all ranks that carry a loss.

        Args:
            values: `[N, L]`; anything outside of `mask`.
        """
        return moments(values[self.mask], self.ranks)

    def largest(self, values: Tensor, mask: Tensor, count: int, name: str) -> Tensor:
        """`[N, L]` bool: the tokens with the `count` largest values of all ranks; a random number decides between equal ones.

        Args:
            values: `[N, L]`; anything outside of the mask.
            mask: `[N, L]` bool, tokens that may be chosen.
            count: of tokens over all ranks, the same on each; all where there are fewer.
            name: of the random numbers.
        """
        return largest(values, mask, count, self.uniforms(name), self.ranks)

    def uniforms(self, name: str) -> Tensor:
        """`[N, L]` float64 in [0, 1): one for each token, those of this step; see `token_uniforms`."""
        return token_uniforms(self.rows, f"{name}, step {self.step}")
