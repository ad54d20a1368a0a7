"""After every update: are the weights that a server answers with those of the trainer, and do its log-probs say so?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lightrl import PolicyWeights
from lightrl_vllm.failures import ServerError
from lightrl_vllm.weight_reload import REPAIR

TOLERANCE = {"torch.float32": 1e-3, "torch.float64": 1e-3}
"""Largest difference of a log-prob that rounding explains, by the dtype of the policy."""
COARSE = 0.2
"""The same for dtypes of two bytes."""
SAME = 1e-6
"""Two answers of one server with the same weights differ by less."""


@dataclass(frozen=True)
class Row:
    """Tokens that a server has sampled behind the context of the probes."""

    address: str
    """Of the server."""
    likeliest: bool
    """Sampled at temperature 0, or as in training."""
    temperature: float
    """Of its log-probs, above 0."""
    context: list[int]
    """Token ids in front of them."""
    tokens: list[int]
    """The sampled ids."""
    logprobs: list[float]
    """Of each of them."""


class UpdateCheck:
    """Compares rows of each server with the trainer's own forward; knows the answers from before the update."""

    def __init__(self, tolerance: float | None) -> None:
        """
        Args:
            tolerance: largest difference of a log-prob; None: by the policy's dtype.
        """
        self._tolerance = tolerance
        self._before: dict[tuple[str, bool], Row] = {}
        self._version: int | None = None

    def compare(self, rows: list[dict[str, Any]], weights: PolicyWeights, version: int) -> None:
        """Refuse an update that has not arrived.

        Args:
            rows: fields of `Row`, the same on every rank.
            weights: that the servers were given.
            version: of the weights.

        Raises:
            ServerError: the log-probs of a server are not the trainer's; the message says what they look like instead.
        """
        limit = self._tolerance
        if limit is None:
            limit = TOLERANCE.get(str(weights.policy.model.dtype), COARSE)
        agreed = set[str]()
        for row in (Row(**fields) for fields in rows):
            ours = weights.logprobs(row.context, row.tokens, row.temperature)
            apart = _distance(ours, row.logprobs)
            if apart > limit:
                untempered = weights.logprobs(row.context, row.tokens, 1.0)
                reason = self._reason(row, ours, untempered, limit, row.address in agreed)
                raise ServerError(
                    f"{row.address}: after the update to version {version} its log-probs at temperature {row.temperature:g} are up to "
                    f"{apart:.3g} away from the trainer's (tolerance {limit:g}): {reason}"
                )
            agreed.add(row.address)
            self._before[row.address, row.likeliest] = row
        self._version = version

    def _reason(self, row: Row, ours: list[float], untempered: list[float], limit: float, others_agree: bool) -> str:
        before = self._before.get((row.address, row.likeliest))
        if before is not None and before.tokens == row.tokens and _distance(before.logprobs, row.logprobs) < SAME:
            return f"it answers as it did with version {self._version}, so the weights have not arrived; {REPAIR}"
        if min(_distance(ours[1:], row.logprobs[:-1]), _distance(ours[:-1], row.logprobs[1:])) <= limit:
            return "they are those of the trainer one token off, so entry t is not of token t"
        if _distance(untempered, row.logprobs) <= limit:
            return "they are those at temperature 1; start it with --logprobs-mode processed_logprobs"
        if others_agree:
            return "those of likeliest tokens agree, so that the weights are right and the log-probs are not of logits / temperature"
        return (
            "its weights are not the policy's. Compare dtypes (--dtype) and, for adapters, the base; on a CPU, reloads of tied embeddings "
            f"keep the old head. Or raise model.engine.tolerance; {REPAIR}"
        )


def _distance(ours: list[float], theirs: list[float]) -> float:
    return max((abs(one - other) for one, other in zip(ours, theirs, strict=True)), default=0.0)
