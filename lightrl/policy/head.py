"""The language-modelling head, which also scores chosen tokens without writing out all logits."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from lightrl.ops.head_product import head_format, head_product, without_autocast
from lightrl.ops.lazy import CannotStayLazyError, lazy_in
from lightrl.ops.logprobs import chosen_logprobs

PROBED = 8
"""Positions and rows of the head at which a model is compared with its head alone."""
TOLERANCE = 1e-3
"""Largest difference from the model's own log-probs at which they are called the same."""


class ScoringHead(nn.Linear):
    """A linear head whose forward gives log-probs if it is given the tokens, and logits otherwise.

    Strategies that shard weights gather a module's around its forward and its backward: so the weight is used here and nowhere else.
    """

    @classmethod
    def take_over(cls, head: nn.Linear) -> None:
        """Make a head able to score; its weights, name and place in the model stay."""
        head.__class__ = cls

    def forward(self, hidden: Tensor, targets: Tensor | None = None, **scoring: Any) -> Any:  # type: ignore[override]
        """Logits `[..., V]` of hidden states `[..., H]`, in float32 or wider; or, given targets, the result of `chosen_logprobs`.

        Args:
            hidden: `[..., H]`, or `[M, H]` with targets.
            targets: `[M]` int64, the token that each position predicts.
            **scoring: temperature, outputs, softcap and scale of `chosen_logprobs`.
        """
        if targets is None:
            weight = self.weight.to(head_format(self.weight))
            with without_autocast(hidden):
                return head_product(hidden, weight, self.bias)
        return chosen_logprobs(hidden, self.weight, self.bias, targets, **scoring)


@torch.no_grad()
def fits_scoring_head(model: Any, difference: Callable[[Tensor, Tensor], float]) -> bool:
    """Make the head of a model able to score, if its log-probs are those of the model's own logits; else a warning says what that costs.

    Args:
        difference: the largest difference of both for `[1, L]` ids and a mask of the same shape.

    Raises:
        CannotStayLazyError: that cannot be found out without the weights of the model.
    """
    head = model.get_output_embeddings()
    if not isinstance(head, nn.Linear) or model.base_model is model or head.weight.is_meta:
        return False
    kind, training, lazy = type(head), model.training, bool(lazy_in(model))
    ScoringHead.take_over(head)
    model.eval()
    with head_alone(model) if lazy else nullcontext():
        ids = torch.arange(min(PROBED, head.weight.shape[0]))[None]
        mask = torch.ones_like(ids, dtype=torch.bool)
        mask[:, 0] = False
        found = difference(ids, mask)
    model.train(training)
    if lazy and math.isnan(found):
        raise CannotStayLazyError(f"{type(model).__name__} does not run its trunk as one module")
    if found <= (TOLERANCE if head.weight.dtype == torch.float32 else 0.1):
        return True
    head.__class__ = kind
    warnings.warn(
        f"{type(model).__name__} does more to its logits than a linear head (log-probs differ by {found:.2g}): "
        "its full logits are computed, which takes much more memory",
        stacklevel=3,
    )
    return False


@contextmanager
def head_alone(model: Any) -> Iterator[None]:
    """Within, the head has a few random rows and reads random hidden states, so that a model can be run whose weights were not read."""
    head, trunk = model.get_output_embeddings(), model.base_model
    kept = dict(head._parameters)
    made = torch.Generator().manual_seed(0)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=made).to(head.weight.dtype)

    width = head.weight.shape[1]
    hidden = random(1, PROBED, width)
    head.weight = nn.Parameter(random(PROBED, width) / width**0.5)
    if head.bias is not None:
        head.bias = nn.Parameter(random(PROBED))
    trunk.forward = lambda *_, **__: _Hidden(hidden)
    try:
        yield
    finally:
        del trunk.forward
        for name, parameter in kept.items():
            setattr(head, name, parameter)


class _Hidden:
    """The output of a trunk: its last hidden states, and None for all else."""

    def __init__(self, hidden: Tensor) -> None:
        self.last_hidden_state, self.hidden_states = hidden, (hidden,)

    def __getitem__(self, index: int) -> Tensor:
        return (self.last_hidden_state,)[index]

    def __getattr__(self, name: str) -> None:
        return None
