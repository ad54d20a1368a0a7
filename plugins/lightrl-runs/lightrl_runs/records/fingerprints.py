"""Short numbers that tell whether two tensors are the same to the bit, so that a record need not hold both."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

from lightrl.types import TrainingBatch

PER_TOKEN = ("old_logprobs", "ref_logprobs", "values", "token_rewards", "token_weight", "advantages", "returns")
"""What the trainer computes for every token before the first step, in this order."""


def fingerprints(batch: TrainingBatch) -> dict[str, str]:
    """The fingerprint of every tensor that was computed from a rollout before the first step, in the order of computing.

    Args:
        batch: rows of one rank.
    """
    mask = batch.response_mask
    found = {name: getattr(batch, name) for name in PER_TOKEN}
    return {name: _digest(values[mask]) for name, values in found.items() if values is not None}


def _digest(values: Tensor) -> str:
    plain = values.detach().cpu().contiguous().view(torch.uint8)
    return hashlib.blake2b(plain.numpy().tobytes(), digest_size=8).hexdigest()
