"""Outputs of the policy: the entropy, and those that compare it with another policy."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lightrl.parts.base import Output

OLD, ROLLOUT = "old_", "rollout_"
"""What stands before the name of an output in the extras: of the policy before the first step, and of the engine while it sampled."""


class Entropy(Output):
    """The entropy of the next token.

    H_t = -sum_v p_v log p_v over the whole vocabulary at the rollout's temperature, in nats.

    Source: Shannon 1948, A mathematical theory of communication.
    """

    name = "entropy"

    def compute(self, logits: Tensor, ids: Tensor) -> Tensor:
        return entropies(logits)


class Comparison(Output):
    """A number of the policy and another one at each sampled token, made of the logits of both."""

    against: str = "teacher"
    """The slot of the algorithm that holds the other one, a reference."""

    @abstractmethod
    def compare(self, logits: Tensor, other: Tensor, ids: Tensor) -> Tensor:
        """`[k]`: a number of each position; a gradient flows into the policy alone. See `Output.compute`.

        Args:
            logits: `[k, V]` of the policy, as in `Output.compute`.
            other: `[k, V]` of the other one, divided by the same temperature.
            ids: `[k]` int64, the sampled tokens.
        """

    def compute(self, logits: Tensor, ids: Tensor) -> Tensor:
        """Raise a RuntimeError: there are no logits of the other one."""
        raise RuntimeError(f"{type(self).__name__} compares two policies: call compare with the logits of both")

    def checked(self, logits: Tensor, other: Tensor, ids: Tensor) -> Tensor:
        """`compare`, of logits of one size; a ValueError if the vocabularies are of different sizes."""
        if logits.shape != other.shape:
            raise ValueError(
                f"{type(self).__name__} compares the whole vocabulary, and the policy has {logits.shape[1]:,} logits where the "
                f"{self.against} has {other.shape[1]:,}: resize the embeddings of one, or learn from the log-probs of the sampled tokens"
            )
        return self.compare(logits, other, ids)


def by_name(outputs: Iterable[Output]) -> dict[str, Output]:
    """Outputs by their names, in a fixed order, each once; a ValueError if two different ones have one name."""
    found: dict[str, Output] = {}
    for output in sorted(outputs, key=repr):
        if repr(found.setdefault(output.name, output)) != repr(output):
            raise ValueError(
                f"two parts read an output {output.name!r} of the policy, {found[output.name]!r} and {output!r}: let them read the same, "
                "or rename one in a subclass"
            )
    return found


def entropies(logits: Tensor) -> Tensor:
    """`[m]`: the entropy of softmax(logits), in nats, of `[m, V]`; -inf is a token of probability 0, which adds nothing.

    H = -sum_v p_v log p_v, dH / dlogits_v = -p_v (log p_v + H).
    """
    apply: Callable[[Tensor], Tensor] = _Entropies.apply
    return apply(logits)


class _Entropies(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor) -> Tensor:
        logp = logits.log_softmax(-1)
        p = logp.exp()
        # 0 times -inf would be NaN
        logp.masked_fill_(p == 0, 0.0)
        found: Tensor = torch.linalg.vecdot(p, logp).neg_()
        ctx.save_for_backward(p, logp, found)
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        p, logp, found = ctx.saved_tensors
        through: Tensor = (logp + found[:, None]).mul_(p).mul_(-grad[:, None])
        return through
