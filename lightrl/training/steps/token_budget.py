"""How many tokens a forward and backward pass takes: as the config says, chosen once for model and device, or fewer where memory lacks."""

from __future__ import annotations

import os
from typing import Any, Literal

import torch

from lightrl.ops.head_product import rows_at_once
from lightrl.ranges import Count
from lightrl.strategies.adapter import StrategyAdapter
from lightrl.strategies.rank_memory import ModelSize, TrainerPrecision
from lightrl.versions import recomputes_activations

MicroBatchTokens = Count | Literal["auto"] | None
"""Tokens; `auto`: chosen for model and device; None: all rows at once."""
SHARE = 0.5
"""Of the memory that is left beside weights, gradients and optimizer, the most that activations and a chunk of logits may take."""
MOST = {"cpu": 1024}
"""Tokens beyond which a pass gains nothing."""
MOST_BYTES = {"cpu": 160 * 2**20}
"""Activations beyond which it gains nothing either."""
MOST_ELSEWHERE = 16_384
LEAST = 256
"""Tokens to begin with, even where they are more than the share."""


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

    def choose(self, model: Any, precision: TrainerPrecision, device: torch.device, adapter: StrategyAdapter, standing: float) -> None:
        """Choose it, unless the config states it: the least that any rank would choose for itself.

        Args:
            model: of transformers, as built, before it is cut over ranks.
            precision: in which its layers compute.
            device: on which this rank trains.
            adapter: knows the other ranks.
            standing: bytes that this rank will have there beside activations, those that it has already included.
        """
        if self.stated == "auto":
            memory = total_memory() / adapter.world_size if device.type == "cpu" else free_memory(device)
            self.tokens = -adapter.largest(-fitting_tokens(model, precision, device.type, memory - standing))

    def halve(self, most: int) -> None:
        """Go on with half of it, where memory did not suffice.

        Args:
            most: tokens of a pass that has all rows.
        """
        self.tokens = (most if self.tokens is None else self.tokens) // 2

    def state_dict(self) -> int | None:
        """The chosen number, for the checkpoint."""
        return self.tokens

    def load_state_dict(self, tokens: int | None) -> None:
        """Go on with what was chosen before, so that a resumed run gives the same numbers on another device."""
        if self.stated == "auto" and tokens is not None:
            self.tokens = tokens

    def __str__(self) -> str:
        if self.tokens is None:
            return "all at once"
        return f"{self.tokens:,}" + (" (auto)" if self.stated == "auto" else "")


def fitting_tokens(model: Any, precision: TrainerPrecision, kind: str, memory: float) -> int:
    """Tokens whose activations fit `SHARE` of the memory beside a chunk of logits: a power of two from `LEAST` to what is of use.

    Args:
        model: of transformers; its layers, widths and vocabulary count.
        precision: in which its layers compute.
        kind: of the device, `cpu` or another.
        memory: in bytes, beside everything that stays there.
    """
    head = model.get_output_embeddings()
    vocabulary = model.config.get_text_config().vocab_size
    logits = 0 if head is None else 2 * 4 * vocabulary * rows_at_once(vocabulary, kind, memory)
    room = max(0.0, min(SHARE * memory - logits, MOST_BYTES.get(kind, memory)))
    tokens = int(room / ModelSize.of(model).kept_of_token(precision, recomputes_activations(model)))
    return min(max(LEAST, 1 << max(0, tokens.bit_length() - 1)), MOST.get(kind, MOST_ELSEWHERE))


def free_memory(device: torch.device) -> int:
    """Bytes of an accelerator that nobody has, or that this process has: another process may stand beside it, such as an engine's."""
    known = torch.get_device_module(device)
    return int(known.mem_get_info(device)[0] + known.memory_reserved(device))


def total_memory() -> int:
    """Bytes of the machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
