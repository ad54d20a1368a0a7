"""Records what a CUDA device is given to do as a graph, which it then runs without Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from lightrl.rollout.graph_step import Recorder, Replay


def recorder_for(model: PreTrainedModel) -> Recorder | None:
    """The recorder of the device on which a model lies; None if it lies on several or on one that records nothing."""
    devices = {parameter.device for parameter in model.parameters()}
    device = devices.pop()
    return CudaRecorder(device) if device.type == "cuda" and not devices else None


class CudaRecorder:
    """Captures CUDA graphs, all on one stream beside that of the computation."""

    def __init__(self, device: torch.device) -> None:
        """
        Args:
            device: of all tensors that are read and written.
        """
        # one for all graphs: cuBLAS keeps a workspace for each stream
        self._device, self._stream = device, torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def __call__(self, run: Callable[[], Tensor]) -> Replay:
        """Run a function once, and record it.

        Raises:
            RuntimeError: it does something that cannot be recorded.
        """
        graph, outer = torch.cuda.CUDAGraph(), torch.cuda.current_stream(self._device)
        self._stream.wait_stream(outer)
        with torch.cuda.stream(self._stream):
            # libraries make at their first call what they keep, and a graph cannot
            run()
            # threads that feed or watch the device go on; `torch.cuda.graph` would empty the cache of memory before each capture
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                out = run()
            finally:
                graph.capture_end()
        outer.wait_stream(self._stream)

        def replay() -> Tensor:
            graph.replay()
            return out

        return replay
