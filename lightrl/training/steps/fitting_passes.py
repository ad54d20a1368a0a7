"""Passes over rows in micro-batches, and in smaller ones where memory does not suffice; and how many tokens a micro-batch has.

Packed tokens are counted where rows are packed, and padded ones where they are not.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from lightrl.ops.batching import filled_batches, micro_batches, packed_batches
from lightrl.ops.head_product import KEPT, rows_at_once
from lightrl.ops.prefix_tree import sorted_rows
from lightrl.ranges import Count
from lightrl.rows import Sequences
from lightrl.strategies.adapter import StrategyAdapter
from lightrl.strategies.rank_memory import ModelSize, TrainerPrecision
from lightrl.versions import recomputes_activations

T = TypeVar("T")


class FittingPasses:
    """Runs passes over rows in micro-batches, and all of them again in smaller ones if one of them lacks memory.

    No result depends on how rows are cut, so that it is that of a run with enough memory.
    """

    def __init__(self, budget: TokenBudget, longest_packed: int, restarts: bool) -> None:
        """Sequences longer than `longest_packed` are not packed; where nothing restarts a lack of memory ends the run."""
        self._budget, self._longest_packed, self._restarts = budget, longest_packed, restarts

    def cut(self, sequences: Sequences) -> list[Tensor]:
        """The rows of each micro-batch within the budget."""
        return cut_rows(sequences.to("cpu"), self._budget.tokens, self._longest_packed)

    def run(self, sequences: Sequences, act: Callable[[list[Tensor]], T], undo: Callable[[], None] = lambda: None) -> T:
        """The outcome of `act`, which makes the passes over the rows of micro-batches; `undo` removes what failed ones have left behind."""
        before: str | None = None
        while True:
            cuts = self.cut(sequences)
            try:
                found = act(cuts)
            except torch.OutOfMemoryError:
                if not self._restarts or self._budget.tokens == 1 or max(map(len, cuts), default=0) <= 1:
                    raise
            else:
                if before is not None:
                    warnings.warn(
                        f"the memory did not suffice for micro-batches {before}: from here on they have {self._budget.tokens:,}, with the "
                        f"same gradient.\nTo begin with them: --model.micro_batch_tokens {self._budget.tokens}",
                        stacklevel=2,
                    )
                return found
            # not before the error is gone, whose frames hold the tensors of the pass
            undo()
            if torch.accelerator.is_available():
                torch.accelerator.empty_cache()
            before = before or ("of all rows at once" if self._budget.tokens is None else f"of {self._budget.tokens:,} tokens")
            while self._budget.tokens != 1 and len(self.cut(sequences)) <= len(cuts):
                self._budget.tokens = (self._budget.tokens or int(sequences.lengths.sum())) // 2


def cut_rows(sequences: Sequences, budget: int | None, longest_packed: int) -> list[Tensor]:
    """Cut the rows of a rank into micro-batches within a budget, all sequences of a row in one.

    Returns:
        Index tensors that cover every row once, the most tokens first, so that a lack of memory shows at once.
    """
    longest = sequences.longest()
    most = len(sequences.row) and int(sequences.row.bincount().max())
    if max(longest.tolist(), default=0) > longest_packed:
        return micro_batches(longest, None if budget is None else budget // most)
    if most <= 1:
        return packed_batches(sequences.input_ids, sequences.lengths, budget)
    return filled_batches(torch.tensor([_tokens(sequences, row) for row in range(len(longest))]), budget)


def _tokens(sequences: Sequences, row: int) -> int:
    chosen = (sequences.row == row).nonzero()[:, 0]
    rows = sorted_rows(sequences.input_ids[chosen], sequences.lengths[chosen].tolist())
    return rows.tokens(0, len(rows.order))


MicroBatchTokens = Count | Literal["auto"] | None
"""Tokens; `auto`: chosen for model and device; None: all rows at once."""
SHARE = 0.5
"""Of the memory that is left beside weights, gradients and optimizer, the most that activations and a chunk of logits may take."""
MOST = {"cpu": 1024}
"""Tokens beyond which a pass gains nothing."""
FREELY = 160 * 2**20
"""Bytes of activations that a pass may have on a CPU, or `HELD` for each parameter of the model if that is more."""
HELD = 16
"""Bytes of a parameter that learns: weight, gradient and AdamW's two moments in float32."""
MOST_ELSEWHERE = 16_384
LEAST = 256
"""Tokens to begin with, even where they are more than the share."""


class TokenBudget:
    """`micro_batch_tokens` of a run."""

    def __init__(self, stated: MicroBatchTokens) -> None:
        self.stated = stated
        self.tokens = None if stated == "auto" else stated
        """Tokens of a pass, None: all at once; where it is chosen, once the policy is there."""

    def choose(self, model: Any, precision: TrainerPrecision, device: torch.device, adapter: StrategyAdapter, standing: float) -> None:
        """Choose it, unless the config states it: the least that any rank would choose, beside `standing` bytes on its device."""
        if self.stated == "auto":
            memory = total_memory() / adapter.world_size if device.type == "cpu" else free_memory(device)
            self.tokens = -adapter.largest(-fitting_tokens(model, precision, device.type, memory - standing))

    def state_dict(self) -> int | None:
        """The chosen number, for the checkpoint."""
        return self.tokens

    def load_state_dict(self, tokens: int | None) -> None:
        """Go on with what was chosen before, so that a resumed run gives the same numbers on another device."""
        if self.stated == "auto" and tokens is not None:
            self.tokens = tokens

    def __str__(self) -> str:
        if self.tokens is None:
            return "auto: chosen once the policy is there" if self.stated == "auto" else "all at once"
        return f"{self.tokens:,}" + (" (auto)" if self.stated == "auto" else "")


def fitting_tokens(model: Any, precision: TrainerPrecision, kind: str, memory: float) -> int:
    """Tokens whose activations fit `SHARE` of the memory beside the logits that are held: a power of two from `LEAST` to what is of use.

    The memory is in bytes, beside everything that stays there.
    """
    head = model.get_output_embeddings()
    vocabulary = model.config.get_text_config().vocab_size
    logits = 0 if head is None else 2 * 4 * vocabulary * rows_at_once(vocabulary, kind, memory) + 4 * KEPT * (kind == "cpu")
    size = ModelSize.of(model)
    most = max(FREELY, HELD * size.parameters) if kind == "cpu" else memory
    room = max(0.0, min(SHARE * memory - logits, most))
    tokens = int(room / size.kept_of_token(precision, recomputes_activations(model)))
    return min(max(LEAST, 1 << max(0, tokens.bit_length() - 1)), MOST.get(kind, MOST_ELSEWHERE))


def free_memory(device: torch.device) -> int:
    """Bytes of an accelerator that are free, or that this process has: other processes may use it too, such as an engine's."""
    known = torch.get_device_module(device)
    return int(known.mem_get_info(device)[0] + known.memory_reserved(device))


def total_memory() -> int:
    """Bytes of the machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
