"""The language-modelling head, which also scores chosen tokens without writing out all logits."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from lightrl.ops.logprobs import chosen_logprobs


class ScoringHead(nn.Linear):
    """A linear head whose forward gives log-probs if it is given the tokens, and logits otherwise.

    Strategies that shard weights gather a module's around its forward and its backward: so the weight is used here and nowhere else.
    """

    @classmethod
    def take_over(cls, head: nn.Linear) -> None:
        """Make a head able to score; its weights, name and place in the model stay."""
        head.__class__ = cls

    def forward(self, hidden: Tensor, targets: Tensor | None = None, **scoring: Any) -> Any:  # type: ignore[override]
        """Logits `[..., V]` of hidden states `[..., H]`; or, given targets, the result of `chosen_logprobs`.

        Args:
            hidden: `[..., H]`, or `[M, H]` with targets.
            targets: `[M]` int64, the token that each position predicts.
            **scoring: temperature, entropy, softcap and scale of `chosen_logprobs`.
        """
        if targets is None:
            return super().forward(hidden)
        return chosen_logprobs(hidden, self.weight, self.bias, targets, **scoring)
