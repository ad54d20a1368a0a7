"""Which decode step a model gets: the fastest that gives what the model's own forward gives."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lightrl.rollout.decode.incremental import IncrementalModel
from lightrl.rollout.decode.lean_step import LeanStep, has_lean_form
from lightrl.rollout.decode.model_forward import DecodeStep, ModelForward, unwrapped

if TYPE_CHECKING:
    from transformers import PreTrainedModel


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
        """`max_positions`: longest row it takes; None if there is no limit."""
        self.model, self._max_positions = model, max_positions
        self._form: Callable[[PreTrainedModel], DecodeStep] | None = None

    def step(self) -> DecodeStep:
        """The step; the weights must be whole, and the model in evaluation mode."""
        if self._form is None:
            self._form = LeanStep if has_lean_form(self.model) and self._agrees() else ModelForward
            said = "the lean step" if self._form is LeanStep else "its own forward"
            log.info("%s decodes with %s", type(unwrapped(self.model)).__name__, said)
        return self._form(self.model)

    def _agrees(self) -> bool:
        expected, found = (self._tried(step) for step in (ModelForward(self.model), LeanStep(self.model)))
        # the keys are as narrow as what the layers compute in, and the logits may be wider
        exact = min(theirs.element_size() for theirs in expected) >= 4 and torch.get_float32_matmul_precision() == "highest"
        tolerance = TOLERANCE if exact else HALF_TOLERANCE
        return all(_same(ours, theirs, tolerance) for ours, theirs in zip(found, expected, strict=True))

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
