"""The language-modelling head, which also scores chosen tokens without writing out all logits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from lightrl.ops.head_product import head_format, head_product, without_autocast
from lightrl.ops.logprobs import chosen_logprobs

PROBED = 8
"""Positions and rows of the head at which a model is compared with its head alone."""


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


@contextmanager
def head_alone(model: Any) -> Iterator[None]:
    """Within, the head has a few random rows and reads random hidden states, so that a model can be run whose weights were not read.

    Args:
        model: a causal LM with a linear head.
    """
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
