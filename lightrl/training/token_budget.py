"""How many tokens a forward and backward pass takes: as the config says, or chosen once for model and device."""

from __future__ import annotations

import os
from typing import Any, Literal

import torch
from torch import nn

from lightrl.ops.logprobs import LEAST_ROWS
from lightrl.ranges import Count
from lightrl.strategies.adapter import StrategyAdapter
from lightrl.strategies.rank_memory import kept_of_token
from lightrl.training.precision import compute_dtype
from lightrl.versions import recomputes_activations

MicroBatchTokens = Count | Literal["auto"] | None
"""Tokens; `auto`: chosen for model and device; None: all rows at once."""
SHARE = 0.25
"""Of the device's whole memory, the most that the activations of a micro-batch and a chunk of its logits may take."""
MOST = {"cpu": 1024}
"""Tokens beyond which a pass gains nothing."""
MOST_BYTES = {"cpu": 128 * 2**20}
"""Activations beyond which it gains nothing either."""
MOST_ELSEWHERE = 16_384
LEAST = 256
"""Tokens; where even these are more than the share, only a smaller model or gradient checkpointing helps."""


class TokenBudget:
    """`micro_batch_tokens` of a run."""

    def __init__(self, stated: MicroBatchTokens) -> None:
        """
        Args:
            stated: in the config.
        """
        self.stated = stated
        self.tokens = None if stated == "auto" else stated
        """Tokens of a pass, None: all at once; where it is chosen, once the policy is there."""

    def choose(self, policy: nn.Module, device: torch.device, adapter: StrategyAdapter) -> None:
        """Choose it, unless the config states it: the least that any rank would choose for itself.

        Args:
            policy: a policy or a reward network, as built, before it is cut over ranks.
            device: on which this rank trains.
            adapter: knows the other ranks.
        """
        if self.stated == "auto":
            beside = adapter.world_size if device.type == "cpu" else 1
            model: Any = policy.model
            own = fitting_tokens(model, compute_dtype(model.dtype, device).itemsize, device.type, total_memory(device) / beside)
            self.tokens = -adapter.largest(-own)

    def state_dict(self) -> int | None:
        """What was chosen, for the checkpoint."""
        return self.tokens

    def load_state_dict(self, tokens: int | None) -> None:
        """Go on with what was chosen before, so that a resumed run gives the same numbers on another device."""
        if self.stated == "auto" and tokens is not None:
            self.tokens = tokens

    def __str__(self) -> str:
        if self.tokens is None:
            return "all at once"
        return f"{self.tokens:,}" + (" (auto)" if self.stated == "auto" else "")


def fitting_tokens(model: Any, width: int, kind: str, memory: float) -> int:
    """Tokens whose activations fit `SHARE` of the memory beside a chunk of logits: a power of two from `LEAST` to what is of use.

    Args:
        model: of transformers; its layers, widths and vocabulary count.
        width: bytes of a number that the layers compute.
        kind: of the device, `cpu` or another.
        memory: of the device in bytes, whether free or not.
    """
    head = model.get_output_embeddings()
    logits = 0 if head is None else 2 * 4 * LEAST_ROWS * model.config.get_text_config().vocab_size
    room = min(max(0.0, SHARE * memory - logits), MOST_BYTES.get(kind, memory))
    tokens = int(room / (width * kept_of_token(model, recomputes_activations(model))))
    return min(max(LEAST, 1 << max(0, tokens.bit_length() - 1)), MOST.get(kind, MOST_ELSEWHERE))


def total_memory(device: torch.device) -> int:
    """Bytes of a device's memory, of the machine's where it is a CPU."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
