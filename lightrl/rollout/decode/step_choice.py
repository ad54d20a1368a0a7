"""Which decode step a model gets: the fastest that gives what the model's own forward gives."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lightrl.rollout.decode.graph_step import GraphStep
from lightrl.rollout.decode.incremental import IncrementalModel
from lightrl.rollout.decode.lean_step import LeanStep, has_lean_form
from lightrl.rollout.decode.model_forward import DecodeStep, ModelForward, unwrapped

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from lightrl.rollout.decode.graph_step import Recorder, Replay


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


log = logging.getLogger(__name__)

TRIALS = (((1, 2, 3, 4), (5, 6, 7, 8)), ((9, 10), (11, 12, 13, 14, 15)))
"""Prompts that are tried: of one length, and of two."""
STEPS = 2
"""Tokens that are decoded behind each."""
TOLERANCE = 1e-4
"""Largest difference of single or double precision that is rounding, relative to the largest number."""
HALF_TOLERANCE = 0.1
"""The same for narrower numbers, and where torch may multiply single ones as if they were."""


class StepChoice:
    """The decode step of one model; it is tried once, at the first use."""

    def __init__(self, model: PreTrainedModel, max_positions: int | None) -> None:
        """
        Args:
            model: a causal LM.
            max_positions: longest row it takes; None if there is no limit.
        """
        self.model, self._max_positions = model, max_positions
        self._form: Callable[[PreTrainedModel], DecodeStep] | None = None

    def step(self) -> DecodeStep:
        """The step; the weights must be whole, and the model in evaluation mode."""
        if self._form is None:
            self._form, said = self._chosen()
            log.info("%s decodes with %s", type(unwrapped(self.model)).__name__, said)
        return self._form(self.model)

    def _chosen(self) -> tuple[Callable[[PreTrainedModel], DecodeStep], str]:
        """The function that makes the step, and its name."""
        if not has_lean_form(self.model):
            return ModelForward, "its own forward"
        expected, why = self._tried(ModelForward(self.model)), ""
        if (record := recorder_for(self.model)) is not None:
            graphs = GraphStep(self.model, record)
            if self._agrees(graphs, expected) and graphs.refusal is None:
                return partial(GraphStep, record=record), "graphs of the lean step"
            why = f", and without graphs: {graphs.refusal or 'they give other numbers than its forward'}"
        if self._agrees(LeanStep(self.model), expected):
            return LeanStep, f"the lean step{why}"
        return ModelForward, f"its own forward{why}"

    def _agrees(self, step: DecodeStep, expected: list[Tensor]) -> bool:
        # the keys are as narrow as what the layers compute in, and the logits may be wider
        exact = min(theirs.element_size() for theirs in expected) >= 4 and torch.get_float32_matmul_precision() == "highest"
        tolerance = TOLERANCE if exact else HALF_TOLERANCE
        return all(_same(ours, theirs, tolerance) for ours, theirs in zip(self._tried(step), expected, strict=True))

    def _tried(self, step: DecodeStep) -> list[Tensor]:
        vocabulary = self.model.config.get_text_config().vocab_size
        found = []
        for prompts in TRIALS:
            batch = IncrementalModel(self.model, self._max_positions, lambda: step)
            logits = batch.prefill([[token % vocabulary for token in prompt] for prompt in prompts], [1] * len(prompts))
            for _ in range(STEPS):
                logits = batch.step(logits.argmax(-1))
                found.append(logits)
            # a head of zeros would hide what stands before it
            found += batch.keys
        return found


def _same(ours: Tensor, theirs: Tensor, tolerance: float) -> bool:
    return ours.shape == theirs.shape and bool((ours - theirs).abs().max() <= tolerance * theirs.abs().max())
