"""A causal LM that reads prompts once and is then fed one token per row at a time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from copy import copy, deepcopy
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers.cache_utils import DynamicLayer

from lightrl.parts.base import TrunkOutput
from lightrl.policy.trunk_numbers import listening
from lightrl.rollout.decode.cache import GrowingLayer, growing_cache, takes_gaps, takes_padding
from lightrl.rollout.decode.kept_rows import KeptRow, put_back, take_out
from lightrl.rollout.decode.model_forward import DecodeStep, ModelForward, unwrapped
from lightrl.rows import onto

if TYPE_CHECKING:
    from transformers import PreTrainedModel

WORTH_A_PASS = 64
"""Tokens that a pass over what all prompts begin with must save."""


class IncrementalModel:
    """One batch being decoded: the cache, and where each row stands.

    Prompts of one length need no mask. Others are padded on the left, and mask and position ids say so to the model.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        max_positions: int | None,
        choose: Callable[[], DecodeStep],
        recorded: Mapping[str, TrunkOutput] | None = None,
    ) -> None:
        """
        Args:
            max_positions: longest row it takes; None if there is no limit.
            recorded: numbers from inside the trunk, by name; with any, each step is the model's own forward.

        Raises:
            ValueError: its forward takes no key-value cache.
        """
        self.model = model
        self._forward, self._choose = ModelForward(model), choose
        self._last_position = None if max_positions is None else max_positions - 1
        self._mask: Tensor | None = None
        self._positions: Tensor | None = None
        self._recorded = recorded or {}
        self.heard: dict[str, Tensor] = {}
        """`[n, ...]` of what is recorded, where the next tokens are predicted."""

    def another(self) -> IncrementalModel:
        """Another batch of the same model, which is empty."""
        return IncrementalModel(self.model, None if self._last_position is None else self._last_position + 1, self._choose, self._recorded)

    def branched(self, step: DecodeStep) -> IncrementalModel:
        """Another batch that has read the same and goes on with a step of its own; this one stays where it is."""
        found = copy(self)
        found._cache, found._step = deepcopy(self._cache), step
        return found

    @property
    def takes_padding(self) -> bool:
        """Prompts of different lengths can share a batch: the model takes their positions, and the cache can leave padding out."""
        return self._forward.takes_positions and takes_padding(growing_cache(self.model.config))

    @cached_property
    def _step(self) -> DecodeStep:
        return self._forward if self._recorded else self._choose()

    @property
    def keys(self) -> list[Tensor]:
        """`[n, heads, positions, width]` keys of what was read, per layer of full attention."""
        return [layer.keys for layer in self._cache.layers if isinstance(layer, DynamicLayer)]

    @cached_property
    def keeps_rows(self) -> bool:
        """Rows can be taken out of a batch and come back in another one, without being read again."""
        return self.takes_padding and takes_gaps(growing_cache(self.model.config))

    def common_beginning(self, prompts: Sequence[Sequence[int]]) -> int:
        """Tokens that all of these prompts begin with, if it pays to read them in a pass of their own; 0 else."""
        first, last = min(map(tuple, prompts)), max(map(tuple, prompts))
        alike = [one == other for one, other in zip(first, last, strict=False)]
        found = min([*alike, False].index(False), min(map(len, prompts)) - 1)
        return found if found * (len(prompts) - 1) >= WORTH_A_PASS and self.keeps_rows else 0

    def prefill(self, prompts: Sequence[Sequence[int]], repeats: Sequence[int], further: int = sys.maxsize, shared: int = 0) -> Tensor:
        """Read each prompt once and go on with some rows of it.

        Args:
            repeats: rows of each prompt, which are neighbours; they add up to n.
            further: most tokens of a row that follow.
            shared: of `common_beginning`: so many first tokens are read once for all prompts.

        Returns:
            `[n, V]` logits of the first tokens of the completions.

        Raises:
            RuntimeError: the model did not use its cache.
        """
        lengths = torch.tensor([len(ids) for ids in prompts])
        device = next(self.model.parameters()).device
        self._cache = growing_cache(self.model.config, int(lengths.max()) + further)
        self._positions = self._mask = None
        if shared:
            self._forward.read(onto(torch.tensor([prompts[0][:shared]]), device), self._cache, {})
            self._cache.reorder_cache(torch.zeros(len(prompts), dtype=torch.int64, device=device))
        if int(lengths.min()) < int(lengths.max()):
            self._mask = torch.ones(len(prompts), shared, dtype=torch.bool, device=device)
            self._positions = torch.full((len(prompts),), shared, device=device)
        logits = self._read([ids[shared:] for ids in prompts])
        self._check_cache(int(lengths.max()))
        rows = onto(torch.arange(len(prompts)).repeat_interleave(torch.tensor(repeats)), device)
        self._cache.reorder_cache(rows)
        self._choose_rows(rows)
        return logits[rows]

    def resume(self, rows: Sequence[KeptRow], further: Sequence[Sequence[int]]) -> Tensor:
        """Go on with rows that were kept, after reading what has been added to them.

        Args:
            further: token ids that each row goes on with, at least one.

        Returns:
            `[n, V]` logits of the next tokens.
        """
        device = next(self.model.parameters()).device
        self._cache = growing_cache(self.model.config)
        self._mask = onto(put_back(self._cache, rows), device)
        self._positions = onto(torch.tensor([row.length for row in rows]), device)
        return self._read(further)

    def _read(self, further: Sequence[Sequence[int]]) -> Tensor:
        """`[n, V]` logits behind further tokens of the rows, at least one of each; of one number, if there is no mask."""
        device = next(self.model.parameters()).device
        lengths = torch.tensor([len(ids) for ids in further])
        longest = int(lengths.max())
        input_ids = onto(torch.tensor([[0] * (longest - len(ids)) + list(ids) for ids in further]), device)
        inputs: dict[str, Tensor] = {}
        if self._mask is not None and self._positions is not None:
            new = onto(torch.arange(longest) >= longest - lengths[:, None], device)
            self._mask = torch.cat([self._mask, new], 1)
            inputs = {"attention_mask": self._mask, "position_ids": self._positions[:, None] + (new.cumsum(1) - 1).clamp(min=0)}
            self._positions = self._positions + onto(lengths, device)
        return self._listened(len(further), lambda: self._forward.read(input_ids, self._cache, inputs))

    def join(self, further: IncrementalModel) -> None:
        """Take the rows of another batch, below one's own; both must keep rows. `further`: was read, has not decoded, is used no more."""
        (mask, positions), (other_mask, other_positions) = self._told(), further._told()
        # padding of all rows: those that needed these positions have left
        unread = int(mask.any(0).byte().argmax())
        for own, other in zip(self._cache.layers, further._cache.layers, strict=True):
            if isinstance(own, GrowingLayer) and isinstance(other, GrowingLayer):
                own.join(other, unread)
                other.release()
        width = max(mask.shape[1] - unread, other_mask.shape[1])
        parts = (mask[:, unread:], other_mask)
        self._mask = torch.cat([F.pad(part, (width - part.shape[1], 0)) for part in parts])
        self._positions = torch.cat([positions, other_positions])
        self.heard = {name: torch.cat([numbers, further.heard[name]]) for name, numbers in self.heard.items()}

    def take_out(self, places: Sequence[int], lengths: Sequence[int]) -> list[KeptRow]:
        """Copies of what was read of some rows of the batch."""
        return take_out(self._cache, places, self._mask, lengths)

    def step(self, tokens: Tensor) -> Tensor:
        """`[n, V]` logits of the next tokens after `[n]` tokens, one per row."""
        positions = None
        if self._mask is not None and self._positions is not None:
            self._mask = torch.cat([self._mask, self._mask.new_ones(len(tokens), 1)], 1)
            # rows that are finished but still in the batch must not run out of positions
            positions = self._positions if self._last_position is None else self._positions.clamp(max=self._last_position)
            self._positions = self._positions + 1
        return self._listened(len(tokens), lambda: self._step.logits(tokens, self._cache, self._mask, positions))

    def keep(self, rows: Tensor) -> None:
        """Go on with some rows only; keys and values move where a row gets another place. `rows`: `[m]` int64 on the host, those so far."""
        moved = (rows != torch.arange(len(rows))).nonzero()[:, 0]
        device = next(self.model.parameters()).device
        sources, targets, all_rows = (onto(places, device) for places in (rows[moved], moved, rows))
        for layer in self._cache.layers:
            if isinstance(layer, GrowingLayer):
                layer.keep(len(rows), sources, targets)
            else:
                layer.reorder_cache(all_rows)
        self._choose_rows(all_rows)

    def _choose_rows(self, rows: Tensor) -> None:
        self.heard = {name: numbers[rows] for name, numbers in self.heard.items()}
        if self._mask is not None and self._positions is not None:
            self._mask, self._positions = self._mask[rows], self._positions[rows]

    def release(self) -> None:
        """Free the keys and values of the batch."""
        del self._cache
        if (step := vars(self).pop("_step", None)) is not None:
            step.release()
        self._mask = self._positions = None
        self.heard = {}

    def _listened(self, rows: int, forward: Callable[[], Tensor]) -> Tensor:
        """The logits of a forward over some rows, whose last position is heard where something is recorded."""
        if not self._recorded:
            return forward()
        with listening(unwrapped(self.model).base_model, self._recorded) as said:
            logits = forward()
        found = {name: numbers() for name, numbers in said.items()}
        self.heard = {name: numbers.view(rows, -1, *numbers.shape[1:])[:, -1] for name, numbers in found.items()}
        return logits

    def _told(self) -> tuple[Tensor, Tensor]:
        """Mask and positions, also where the model needs none."""
        if self._mask is not None and self._positions is not None:
            return self._mask, self._positions
        rows, _, read, _ = self.keys[0].shape
        mask = torch.ones(rows, read, dtype=torch.bool, device=self.keys[0].device)
        return mask, torch.full((rows,), read, device=mask.device)

    def _check_cache(self, length: int) -> None:
        attention = [layer for layer in self._cache.layers if isinstance(layer, DynamicLayer)]
        if attention and attention[0].get_seq_length() != length:
            raise RuntimeError(
                f"{type(self.model).__name__} left its key-value cache at {attention[0].get_seq_length()} positions after a prompt of "
                f"{length}: something (gradient checkpointing in training mode?) turned the cache off"
            )
