"""A tiny policy whose logits are as large as those of trained ones, so that rounding shows in its log-probs."""

from __future__ import annotations

from typing import Any

import torch

from lightrl.policy.policy import Policy
from lightrl.policy.tiny import TinyPolicy

LARGEST = 40.0
"""Largest logit: bfloat16 rounds it to 0.25. Those of a new TinyPolicy are near 1, and rounded to 0.008."""
SPREAD = 2.0
"""Standard deviation of the logits of a token, so that policies stay undecided."""


class RealSizedPolicy(TinyPolicy):
    """A TinyPolicy with a head of its own, all of whose logits are near `LARGEST`: they share what one feature adds to each."""

    def __init__(self, hidden: int = 64, layers: int = 4, **kwargs: Any) -> None:
        super().__init__(hidden=hidden, layers=layers, **kwargs)

    def sizes(self) -> dict[str, Any]:
        return super().sizes() | {"tie_word_embeddings": False}

    @torch.no_grad()
    def build(self) -> Policy:
        policy = super().build()
        model = policy.model
        embeddings, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
        embeddings[:, 0] = embeddings.std() * self.hidden**0.5
        head[:, 0] = 0.0
        ids = torch.arange(2, len(self.alphabet) + 2)[None]
        head.mul_(SPREAD / model(input_ids=ids, use_cache=False).logits.std())
        hidden = model.base_model(input_ids=ids, use_cache=False).last_hidden_state
        head[:, 0] = (LARGEST - model(input_ids=ids, use_cache=False).logits.max()) / hidden[..., 0].mean()
        return policy
