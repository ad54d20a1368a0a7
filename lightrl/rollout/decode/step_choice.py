"""The decode step of a model: the fastest that gives what the model's own forward gives."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lightrl.rollout.decode.graph_step import CudaGraphs, GraphStep, Record
from lightrl.rollout.decode.incremental import IncrementalModel
from lightrl.rollout.decode.lean_step import LeanStep, has_lean_form
from lightrl.rollout.decode.model_forward import DecodeStep, ModelForward, unwrapped

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def recorder_for(model: PreTrainedModel) -> Callable[[], Record] | None:
    """Makes what records steps on the device of a model; None: it records nothing."""
    device, *others = {parameter.device for parameter in model.parameters()}
    return partial(CudaGraphs, device) if device.type == "cuda" and not others else None


log = logging.getLogger(__name__)

TRIALS = (((1, 2, 3, 4),), ((5, 6), (7, 8, 9, 10, 11), (12, 13)))
"""Prompts that are tried: one alone, and several of two lengths, for which steps have other products."""
STEPS = 2
"""Tokens that are decoded behind each."""
TOLERANCE = 1e-4
"""Largest difference of single or double precision that is rounding, relative to the largest number."""
CACHE_TOLERANCE = 2e-3
"""The same between one token at a time and whole rows, for which models add up in other orders."""
HALF_TOLERANCE = 0.1
"""The same for narrower numbers, and where torch may multiply single ones as if they were."""


class StepChoice:
    """The decode step of one model; it is tried once, at the first use."""

    def __init__(self, model: PreTrainedModel, max_positions: int | None) -> None:
        """`max_positions`: longest row it takes; None if there is no limit."""
        self.model, self._max_positions = model, max_positions
        self._form: Callable[[PreTrainedModel], DecodeStep] | None = None

    def step(self) -> DecodeStep:
        """The step; the weights must be whole, and the model in evaluation mode.

        Raises:
            ValueError: the model's logits behind its cache are not those of whole rows.
        """
        if self._form is not None:
            return self._form(self.model)
        self._form, first, said = self._chosen()
        if self._form is ModelForward:
            self._check_cache()
        log.info("%s decodes with %s", type(unwrapped(self.model)).__name__, said)
        return first

    def _chosen(self) -> tuple[Callable[[PreTrainedModel], DecodeStep], DecodeStep, str]:
        """How steps are made, the first one, with the copies of weights that its trial has made, and what is said of it."""
        own = ModelForward, ModelForward(self.model), "its own forward"
        if not has_lean_form(self.model):
            return own
        expected = self._tried(own[1])
        if (recorder := recorder_for(self.model)) is not None:
            graphs = GraphStep(self.model, recorder)
            if not self._agrees(graphs, expected):
                warnings.warn("decoding goes on without CUDA graphs, and is slower: they give other numbers than the model", stacklevel=2)
            elif graphs.refusal is None:
                form = partial(GraphStep, recorder=recorder)
                return form, form(self.model), "CUDA graphs of the lean step"
        lean = LeanStep(self.model)
        return (LeanStep, lean, "the lean step") if self._agrees(lean, expected) else own

    def _agrees(self, step: DecodeStep, expected: list[Tensor]) -> bool:
        found = self._tried(step)
        # the keys are as narrow as what the layers compute in, and the logits may be wider
        exact = min(theirs.element_size() for theirs in expected) >= 4 and torch.get_float32_matmul_precision() == "highest"
        tolerance = TOLERANCE if exact else HALF_TOLERANCE
        pairs = zip(found, expected, strict=True)
        return all(a.shape == b.shape and bool((a - b).abs().max() <= tolerance * b.abs().max()) for a, b in pairs)

    def _check_cache(self) -> None:
        """Compare logits behind the cache with those of whole rows; where numbers are narrow, rounding would hide a difference."""
        parameter = next(self.model.parameters())
        if parameter.element_size() < 4 or torch.is_autocast_enabled(parameter.device.type):
            return
        step, vocabulary = ModelForward(self.model), self.model.config.get_text_config().vocab_size
        together = IncrementalModel(self.model, self._max_positions, lambda: step).takes_padding
        for prompts in TRIALS if together else [(prompt,) for several in TRIALS for prompt in several]:
            batch = IncrementalModel(self.model, self._max_positions, lambda: step)
            rows = [[token % vocabulary for token in prompt] for prompt in prompts]
            # some models keep a state of their own, which is not copied for the second completion of a prompt
            logits = batch.prefill(rows, [2] * len(rows))
            rows = [row for row in rows for _ in range(2)]
            for _ in range(STEPS):
                sampled = logits.argmax(-1)
                rows = [[*row, token] for row, token in zip(rows, sampled.tolist(), strict=True)]
                logits = batch.step(sampled)
            alone = (torch.tensor([row], device=parameter.device) for row in rows)
            whole = torch.stack([self.model(input_ids=ids, use_cache=False).logits[0, -1] for ids in alone])
            difference = float((logits - whole).abs().max() / whole.abs().max())
            if difference > CACHE_TOLERANCE:
                raise ValueError(
                    f"{type(unwrapped(self.model)).__name__} gives other logits behind its cache than for whole rows, by {difference:.2g} "
                    "of the largest, so TransformersEngine cannot decode with it: ratios would be wrong before the first step.\n"
                    "Set an engine that does not use transformers, such as --model.engine VLLMEngine"
                )

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
