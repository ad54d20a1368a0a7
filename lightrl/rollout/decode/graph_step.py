"""The lean decode step over buffers that do not move, so that a device can record it once and run it for every token."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from lightrl.rollout.decode.cache import FixedLayer
from lightrl.rollout.decode.lean_step import LeanStep
from lightrl.rollout.decode.model_forward import DecodeStep

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from transformers.cache_utils import Cache


class StepInputs:
    """Tokens, their positions, where their keys are written, and what they may read; some rows and places are unused."""

    def __init__(self, like: Tensor, rows: int, places: int) -> None:
        """
        Args:
            like: int64, on the device.
            rows: of the buffers of keys and values.
            places: of these buffers, for the positions of each row.
        """
        self.tokens, self.positions, self.place = like.new_zeros(rows), like.new_zeros(rows), like.new_zeros(1)
        self.places = torch.arange(places, device=like.device)
        self._read = like.new_ones(rows, places, dtype=torch.bool)

    def tell(self, tokens: Tensor, read: int, mask: Tensor | None, positions: Tensor | None) -> None:
        """Take the arguments of a step.

        Args:
            tokens: `[n]`.
            read: places that hold earlier tokens, the same for all rows.
            mask: `[n, read + 1]` bool, as in `DecodeStep.logits`.
            positions: `[n]`, or None: behind all that was read.
        """
        n = len(tokens)
        self.tokens[:n] = tokens
        self.place.fill_(read)
        self.positions.fill_(read)
        # unused rows read all that is there, so that their numbers stay finite
        self._read.fill_(True)
        if positions is not None:
            self.positions[:n] = positions
        if mask is not None:
            self._read[:n, : read + 1] = mask

    def open(self) -> Tensor:
        """`[rows, places]` bool, True where a row reads."""
        return self._read & (self.places <= self.place)


log = logging.getLogger(__name__)

Replay = Callable[[], Tensor]
"""Runs what was recorded, and gives its result, which the next call overwrites."""
Recorder = Callable[[Callable[[], Tensor]], Replay]
"""Records a function that reads and writes tensors, which stay where they are. It may run it: to run it twice is to run it once."""
_State = tuple[torch.Size, bool, list[int], list[int]]


class GraphStep(DecodeStep):
    """The lean step, recorded for one cache and recorded anew when something that it reads has moved.

    Rows and positions are those of the cache's buffers: what is not used is masked. A recording lives as long as its cache.
    """

    def __init__(self, model: PreTrainedModel, record: Recorder) -> None:
        """
        Args:
            model: of which `has_lean_form` is true.
            record: records the step.
        """
        self._lean, self._record = LeanStep(model), record
        # looked up by name each time: FSDP2 puts other tensors in their places
        owners = chain.from_iterable((module._parameters, module._buffers) for module in model.modules())
        self._weights = [(owner, name) for owner in owners for name in owner]
        self._recordings: WeakKeyDictionary[Cache, _Recording] = WeakKeyDictionary()
        self.refusal: str | None = None
        """Why steps are not recorded any more."""

    def logits(self, tokens: Tensor, cache: Cache, mask: Tensor | None, positions: Tensor | None) -> Tensor:
        if self.refusal is None:
            try:
                return self._recorded(tokens, cache, mask, positions)
            except RecordingError as error:
                self.refusal = str(error)
                self._recordings.clear()
                log.info("decoding goes on without graphs: %s", error)
        return self._lean.logits(tokens, cache, mask, positions)

    def _recorded(self, tokens: Tensor, cache: Cache, mask: Tensor | None, positions: Tensor | None) -> Tensor:
        read, layers = cache.get_seq_length(), _fixed_layers(cache)
        state = self._state(layers)
        recording = self._recordings.get(cache)
        if recording is None or recording.state != state:
            recording = self._recordings[cache] = self._begun(state, tokens, layers[0].whole[0])
        recording.inputs.tell(tokens, read, mask, positions)
        if recording.replay is None:
            recording.replay = self._new_replay(recording, layers)
        # copied, since the next token's stand in the same place
        logits = recording.replay()[: len(tokens)].clone()
        for layer in layers:
            layer.advance()
        return logits

    def _begun(self, state: _State, tokens: Tensor, buffer: Tensor) -> _Recording:
        rows, _, places, _ = buffer.shape
        inputs = StepInputs(tokens, rows, places)
        return _Recording(state, inputs, self._lean.angles(places, self._lean.embedded(inputs.tokens)))

    def _new_replay(self, recording: _Recording, layers: Sequence[FixedLayer]) -> Replay:
        lean, inputs, (cos, sin) = self._lean, recording.inputs, recording.angles
        written = [_Written(layer.whole, inputs.place) for layer in layers]

        def run() -> Tensor:
            with _without_kept_casts():
                at = inputs.positions
                return lean.through(lean.embedded(inputs.tokens), written, cos[at], sin[at], inputs.open())

        try:
            return self._record(run)
        except RuntimeError as error:
            raise RecordingError(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}") from error

    def _state(self, layers: Sequence[FixedLayer]) -> _State:
        """The state that a recording is valid for: another one is made where it differs."""
        buffers = [buffer.data_ptr() for layer in layers for buffer in layer.whole]
        weights = [weight.data_ptr() for owner, name in self._weights if (weight := owner[name]) is not None]
        first = layers[0].whole[0]
        return first.shape, torch.is_autocast_enabled(first.device.type), buffers, weights


class RecordingError(RuntimeError):
    """A step could not be recorded."""


@dataclass
class _Recording:
    """A step over the buffers of one cache; it does not keep them."""

    state: _State
    inputs: StepInputs
    angles: tuple[Tensor, Tensor]
    replay: Replay | None = None


@dataclass(frozen=True)
class _Written:
    """Keys and values of one layer, in buffers of which one position is written, whose number lies on the device."""

    buffers: tuple[Tensor, ...]
    place: Tensor

    def update(self, key_states: Tensor, value_states: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = self.buffers
        for buffer, states in ((keys, key_states), (values, value_states)):
            buffer.index_copy_(2, self.place, states.to(buffer.dtype))
        return keys, values


def _fixed_layers(cache: Cache) -> list[FixedLayer]:
    """The cache's layers, each made one with fixed buffers and room for a position."""
    fixed = []
    for number, layer in enumerate(cache.layers):
        # each in turn, so that what it replaces is let go
        cache.layers[number] = layer if isinstance(layer, FixedLayer) else FixedLayer.instead_of(layer)
        fixed.append(cache.layers[number])
        fixed[-1].make_room()
    return fixed


@contextmanager
def _without_kept_casts() -> Iterator[None]:
    """Within, autocast keeps no converted weight, which would be gone when it ends."""
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)
