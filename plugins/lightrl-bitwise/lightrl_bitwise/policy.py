"""A policy whose log-probs and gradients are the same to the bit, however its rows are put together."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from lightrl import Policy, PolicyOutput, PolicySource
from lightrl_bitwise.scoring import chosen_logprobs
from lightrl_bitwise.sums import LARGEST_GRADIENT
from lightrl_bitwise.trunk import WholeRows, hidden_states, longest_row, refuse_other_forms

NOTHING: Mapping[str, Any] = MappingProxyType({})
TOLERANCE = 1e-2
"""Largest difference between log-probs here and those of the model's own forward that is rounding."""


class ExactPolicy(Policy):
    """A causal LM in float64, of which every sum is exact."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        """
        Raises:
            ValueError: the model has a form that is not computed here, or gives other log-probs.
        """
        refuse_other_forms(model)
        super().__init__(model.double(), tokenizer)
        # rows are cut by their padded tokens, and a prompt is read for each of its completions
        self.longest_packed = 0
        self._compare()
        for parameter in self.parameters():
            parameter.register_post_accumulate_grad_hook(_warn_of_size)

    def forward(
        self,
        input_ids: Tensor,
        mask: Tensor,
        temperature: float = 1.0,
        outputs: Mapping[str, Any] = NOTHING,
        critic: nn.Module | None = None,
        steering: Mapping[str, Tensor] = NOTHING,
    ) -> PolicyOutput:
        """Log-probs of the selected tokens; see `Policy.forward`. ValueError: more is asked for, or weights have been rounded."""
        wanted = [*outputs, *steering, *([] if critic is None else ["values"])]
        if wanted:
            raise ValueError(
                f"BitwisePolicy computes log-probs alone, and a part of the algorithm needs {wanted[0]}: leave that part out, or train the "
                "base without BitwisePolicy"
            )
        if self.model.dtype != torch.float64:
            raise ValueError(f"BitwisePolicy learns in float64, and its weights are {self.model.dtype}: set trainer.precision to 32-true")
        rows, width = mask.shape
        counts = mask.sum(1).tolist()
        # a row with nothing to predict has one token, so that the weights have a part in the result
        predictors = torch.arange(width).where(mask, 0).amax(1).clamp(min=1).tolist()
        whole = WholeRows(predictors, longest_row(self.model))
        read = torch.arange(width) < torch.tensor(predictors)[:, None]
        hidden = hidden_states(self.model, input_ids[read], whole.positions, whole.multiply, whole.attend)
        number = (read.flatten().cumsum(0) - 1).view(rows, width)
        chosen = mask.nonzero()
        before = hidden.index_select(0, number[chosen[:, 0], chosen[:, 1] - 1])
        head = self.model.get_output_embeddings()
        logprobs = chosen_logprobs(before, head.weight, head.bias, input_ids[mask], temperature, counts).float()
        return PolicyOutput(
            logprobs=logprobs.new_zeros(rows * width).index_copy(0, mask.flatten().nonzero()[:, 0], logprobs).view(rows, width)
        )

    @torch.no_grad()
    def _compare(self) -> None:
        ids = torch.arange(min(8, self.model.config.vocab_size))[None]
        mask = torch.arange(ids.shape[1])[None] > 0
        theirs = self.model.base_model(input_ids=ids, use_cache=False).last_hidden_state @ self.model.get_output_embeddings().weight.mT
        expected = theirs[:, :-1].log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]
        found = self(ids, mask).logprobs[:, 1:]
        if not (difference := float((found - expected).abs().max())) <= TOLERANCE:
            raise ValueError(
                f"{type(self.model).__name__} does more than its blocks say: log-probs differ by {difference:.2g}.\n"
                "Use the policy without BitwisePolicy"
            )


def _warn_of_size(parameter: Tensor) -> None:
    if parameter.grad is not None and (largest := float(parameter.grad.abs().max())) > LARGEST_GRADIENT:
        warnings.warn(
            f"a gradient is {largest:.3g}, and sums are exact up to {LARGEST_GRADIENT:g}: weights may now depend on how the work is split",
            stacklevel=2,
        )


class BitwisePolicy(PolicySource):
    """A policy whose log-probs and gradients are the same to the bit, however rows are batched, cut, ordered or spread over ranks.

    Every sum has factors rounded to so few bits that it is exact, and what is exact has no order. Weights are float64.
    """

    def __init__(self, base: PolicySource) -> None:
        """
        Args:
            base: where the weights come from: a model of the family of Llama, Mistral, Qwen2 or Qwen3, without adapters.
        """
        self.base = base

    dtype = "float64"

    def build(self) -> Policy:
        """See `PolicySource.build`. ValueError: the base has a form that is not computed here."""
        policy = self.base.build()
        if type(policy) is not Policy:
            raise ValueError(f"BitwisePolicy.base gives a {type(policy).__name__}, and here every weight is trained: name its own base")
        return ExactPolicy(policy.model.train(), policy.tokenizer)

    def build_lazy(self) -> Policy:
        """ValueError: strategies that cut weights over ranks add gradients up in an order of their own."""
        raise ValueError("BitwisePolicy needs every weight on every rank: use --trainer.strategy auto or ddp")

    def tokenizer(self) -> Any:
        return self.base.tokenizer()

    def outline(self) -> Any:
        return self.base.outline()
