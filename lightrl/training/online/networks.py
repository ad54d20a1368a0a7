"""Policy, critic and references as functions of rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from types import MappingProxyType
from typing import Any, TypeVar

import torch
from torch import Tensor

from lightrl.algorithms.algorithm import Algorithm
from lightrl.ops.logprobs import AtRows
from lightrl.parts.base import Output
from lightrl.parts.output import Comparison
from lightrl.parts.reference import Reference
from lightrl.policy.policy import Policy
from lightrl.types import PolicyOutput, Prompt, Rollout, ScoredRollout

R = TypeVar("R", bound=Rollout)
Outputs = Mapping[str, Output]
"""Outputs of the policy by name."""
NO_OUTPUTS: Outputs = MappingProxyType({})
"""None of them."""
ByName = Callable[[ScoredRollout], dict[str, Tensor]]
"""Gives `[n, l]` values by name for a micro-batch of n rows, the same names each time."""


class Networks(ABC):
    """Forward passes of the networks of a run."""

    @abstractmethod
    def outputs(self, batch: ScoredRollout, mask: Tensor, read: Outputs = NO_OUTPUTS) -> PolicyOutput:
        """Log-probs of the selected tokens of n rows, and what is read of their logits, of the trunk and of the critic.

        The mask `[n, L]` is on the CPU, or the device is waited for.
        """

    @abstractmethod
    def per_token(self, scored: ScoredRollout, compute: ByName) -> dict[str, Tensor]:
        """The outputs of forward passes for every token, by name, without gradient and in micro-batches.

        Returns:
            `[N, L]` or `[N, L, ...]`, 0 beyond a micro-batch's longest row; in the type of the rollout's log-probs, but for whole numbers.
        """

    def logprobs_now(self, scored: ScoredRollout) -> Tensor:
        """`[N, L]` log-probs of every sampled token under the present policy, at the cost of a forward pass."""
        now = self.per_token(scored, lambda micro: {"now": self.outputs(micro, micro.host.response_mask).logprobs})
        return now.get("now", torch.zeros_like(scored.rollout_logprobs))


@contextmanager
def compared_at_hand(policy: Policy, algorithm: Algorithm, read: Outputs, further: Iterable[Reference] = ()) -> Iterator[None]:
    """Within, the references that outputs compare the policy with are asked in several forward passes, and some others."""
    compared = [algorithm.references[output.against] for output in read.values() if isinstance(output, Comparison)]
    with ExitStack() as stack:
        for reference in (*compared, *further):
            stack.enter_context(reference.at_hand(policy))
        yield


def beside(output: Comparison, other: Callable[[slice], Tensor]) -> AtRows:
    """Comparisons of the policy with another one, chunk by chunk; `other` gives its logits for a slice of the positions."""
    return AtRows(lambda rows: lambda logits, ids: output.checked(logits, other(rows), ids))


def dummy_batch(batch: R) -> R:
    """One row of two tokens without a response: it weighs nothing, and its backward takes part in the sums over ranks.

    It has the fields, dtypes and devices of the batch, which may be empty.
    """
    row = type(batch)(**{f.name: _neutral(f.name, getattr(batch, f.name), len(batch)) for f in fields(batch)}).padded(2)
    row.attention_mask[:] = True
    return row


def _neutral(name: str, value: object, rows: int) -> Any:
    if isinstance(value, Tensor):
        return torch.zeros((1, *value.shape[1:]), dtype=value.dtype, device=value.device)
    if isinstance(value, dict):
        return {key: _neutral(key, part, rows) for key, part in value.items()}
    if name == "prompts":
        return [Prompt(id="dummy", text="")]
    if name == "episodes":
        return []
    return [""] if isinstance(value, list) and len(value) == rows else value
