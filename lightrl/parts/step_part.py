"""Parts that are asked while an optimizer step is computed, and may look at all of its rows before."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

from torch import Tensor

from lightrl.parts.base import Part

if TYPE_CHECKING:
    from lightrl.parts.minibatch import Minibatch

Extras = Mapping[str, Tensor]
"""`[n]`, `[n, L]` or `[n, L, ...]` each, by name."""


class StepPart(Part):
    """A part that sees the micro-batches of an optimizer step."""

    prepares: frozenset[str] = frozenset()
    """Names of the extras that `prepare` gives. With any, each step costs one more forward pass, without gradient, if it
    reads the policy."""
    reads_policy: bool = True
    """`prepare` reads the current policy in `minibatch.output`; False: that has the old log-probs and no outputs."""

    steers: frozenset[str] = frozenset()
    """Names of extras `[N, L, ...]` that travel with the tokens through the policy in every forward pass of a step: its layers are given
    `[P, ...]` under the same name, of each of the P positions that run; that of token t is given to the position that predicts it."""

    @property
    def sees_steps(self) -> bool:
        return True

    def prepare(self, minibatch: Minibatch) -> Extras:
        """Numbers that depend on all rows of a step, those of other ranks and micro-batches included; asked before the first backward pass.

        Args:
            minibatch: this rank's rows under the current policy, with sums over all ranks.

        Returns:
            `[N]` or `[N, L]` for each name of `prepares`, for this and other parts to read.
        """
        return {}

    def given(self, extras: Extras) -> Self:
        """A copy of the part that has the extras of a micro-batch; the core asks such a copy.

        Args:
            extras: what parts learnt of its rows and tokens, and the outputs of the current policy that parts read, with gradient.
        """
        copied = copy.copy(self)
        vars(copied)["_extras"] = extras
        return copied

    @property
    def extras(self) -> Extras:
        """All extras of the micro-batch that the part is asked about; none of a part that was not `given` any."""
        found: Extras = vars(self).get("_extras", {})
        return found

    def extra(self, name: str) -> Tensor:
        """`[n]` or `[n, L]` of the micro-batch that the part is asked about.

        Args:
            name: of an extra among `needs_extras` or `prepares`, or of an output among `outputs`.

        Raises:
            RuntimeError: nobody left it.
        """
        if name not in self.extras:
            known = ", ".join(self.extras) or "none"
            raise RuntimeError(
                f"{type(self).__name__} reads the extra {name!r}, and there is {known}: have it in needs_extras, prepares or outputs"
            )
        return self.extras[name]
