"""The lean decode step recorded as a CUDA graph, which a GPU runs at once: to start its kernels one by one takes five times as long."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

from lightrl.rollout.decode.cache import GrowingLayer
from lightrl.rollout.decode.lean_step import LeanStep
from lightrl.rollout.decode.model_forward import DecodeStep

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Record = Callable[[Callable[[], Tensor]], Callable[[], Tensor]]
"""Records a function that reads and writes tensors at fixed places, and gives one that does so again; its result is overwritten then."""


@cache
def _capture_stream(device: torch.device) -> torch.cuda.Stream:
    """The stream of all captures: cuBLAS keeps a workspace for each stream."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


class CudaGraphs:
    """Captures CUDA graphs that take turns in the same memory, which is free with the last of them."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._last: torch.cuda.CUDAGraph | None = None

    def __call__(self, run: Callable[[], Tensor]) -> Callable[[], Tensor]:
        """Run a function once, and capture it beside the computation. RuntimeError: it does something that cannot be captured."""
        graph, outer, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream(self._device), _capture_stream(self._device)
        stream.wait_stream(outer)
        with torch.cuda.stream(stream):
            # libraries make at their first call what they keep, and a graph cannot
            run()
            # threads that feed or watch the device go on; `torch.cuda.graph` would collect garbage before each capture
            graph.capture_begin(None if self._last is None else self._last.pool(), capture_error_mode="thread_local")
            try:
                out = run()
            finally:
                graph.capture_end()
        outer.wait_stream(stream)
        self._last = graph

        def replay() -> Tensor:
            # on the stream of its device, which need not be the one that is current
            with torch.cuda.device(self._device):
                graph.replay()
            return out

        return replay


class GraphStep(DecodeStep):
    """The step of a model that has a lean form, recorded anew where the buffers of the cache have moved or half of their rows are left."""

    def __init__(self, model: PreTrainedModel, recorder: Callable[[], Record]) -> None:
        """`model`: its weights stay where they are as long as this is used."""
        self._lean, self._record = LeanStep(model), recorder()
        self._recorded: _Recorded | None = None
        self.refusal: str | None = None
        """Why steps are not recorded any more."""

    def logits(self, tokens: Tensor, cache: Cache, mask: Tensor | None, positions: Tensor | None) -> Tensor:
        layers = [layer for layer in cache.layers if isinstance(layer, GrowingLayer)]
        if self.refusal is not None:
            return self._lean.logits(tokens, cache, mask, positions)
        for layer in layers:
            layer.make_room()
        rows, _, places, _ = layers[0].buffers[0].shape
        while rows // 2 >= len(tokens):
            rows //= 2
        where = [rows, *(buffer.data_ptr() for layer in layers for buffer in layer.buffers)]
        # another cache can get the same buffers, with fewer tokens and beside other weights
        if self._recorded is None or self._recorded.cache() is not cache or self._recorded.where != where:
            # what it holds is free for the next one
            self._recorded = None
            self._recorded = _Recorded(cache, where, rows, places, tokens)
        inputs = self._recorded
        inputs.update(tokens, cache.get_seq_length(), mask, positions)
        if inputs.replay is None:
            try:
                inputs.replay = self._record(inputs.function(self._lean, layers))
            except torch.OutOfMemoryError:
                raise
            except RuntimeError as error:
                self.refusal, self._recorded = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}", None
                warnings.warn(f"decoding goes on without CUDA graphs, and is slower: {self.refusal}", stacklevel=2)
                return self._lean.logits(tokens, cache, mask, positions)
        # copied, since the next token's are written to the same place
        logits = inputs.replay()[: len(tokens)].clone()
        for layer in layers:
            layer.advance()
        return logits

    def release(self) -> None:
        self._recorded = None
        del self._record
        if torch.cuda.is_available():
            # memory of graphs that are gone is of use for no other tensor
            torch.cuda.empty_cache()


class _Recorded:
    """A recording and its inputs: tokens, their positions, the place where their keys go, and what they may read."""

    def __init__(self, cache: Cache, where: list[int], rows: int, places: int, like: Tensor) -> None:
        self.cache, self.where = weakref.ref(cache), where
        self.replay: Callable[[], Tensor] | None = None
        self._tokens, self._positions, self._place = like.new_zeros(rows), like.new_zeros(rows), like.new_zeros(1)
        self._open = like.new_zeros(rows, places, dtype=torch.bool)

    def update(self, tokens: Tensor, read: int, mask: Tensor | None, positions: Tensor | None) -> None:
        """Take the arguments of a step; `read` places hold earlier tokens. Rows that are not used read all that is there."""
        n = len(tokens)
        self._tokens[:n] = tokens
        self._place.fill_(read)
        self._open[:, : read + 1] = True
        if mask is not None:
            self._open[:n, : read + 1] = mask
        if positions is None:
            self._positions.fill_(read)
        else:
            self._positions[:n] = positions

    def function(self, lean: LeanStep, layers: list[GrowingLayer]) -> Callable[[], Tensor]:
        """The step over these inputs, to be recorded; it holds the buffers, and the recording does not."""
        cache = Cache(layers=[_OnePlace(layer, len(self._tokens), self._place) for layer in layers])
        kind = self._tokens.device.type

        def run() -> Tensor:
            # a converted weight that autocast keeps would be gone when it ends
            with torch.autocast(kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind), cache_enabled=False):
                return lean.logits(self._tokens, cache, self._open, self._positions)

        return run


class _OnePlace(DynamicLayer):
    """Keys and values of a layer that are read at every place, and written at one whose number is on the device."""

    def __init__(self, layer: GrowingLayer, rows: int, place: Tensor) -> None:
        super().__init__()
        self.keys, self.values = (buffer[:rows] for buffer in layer.buffers)
        self._place = place

    def update(self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object) -> tuple[Tensor, Tensor]:
        for states, new in ((self.keys, key_states), (self.values, value_states)):
            states.index_copy_(2, self._place, new.to(states.dtype))
        return self.keys, self.values

    def get_seq_length(self) -> int:
        return self.keys.shape[-2] - 1
