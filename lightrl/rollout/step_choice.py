"""Which decode step a model gets: the lean one where it gives what the model's own forward gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from lightrl.rollout.incremental import IncrementalModel
from lightrl.rollout.lean_step import LeanStep, has_lean_form
from lightrl.rollout.model_forward import DecodeStep, ModelForward

if TYPE_CHECKING:
    from transformers import PreTrainedModel

TRIALS = (((1, 2, 3, 4), (5, 6, 7, 8)), ((9, 10), (11, 12, 13, 14, 15)))
"""Prompts that are tried: of one length, and of two."""
STEPS = 2
"""Tokens that are decoded behind each."""
TOLERANCE = 1e-4
"""Largest difference of single or double precision that is rounding, relative to the largest number."""
HALF_TOLERANCE = 0.1
"""The same for narrower numbers."""


class StepChoice:
    """The decode step of one model; it is tried once, at the first use."""

    def __init__(self, model: PreTrainedModel, max_positions: int | None) -> None:
        """
        Args:
            model: a causal LM.
            max_positions: longest row it takes; None if there is no limit.
        """
        self.model, self._max_positions = model, max_positions
        self._lean: bool | None = None

    def step(self) -> DecodeStep:
        """The step; the weights must be whole, and the model in evaluation mode."""
        if self._lean is None:
            self._lean = has_lean_form(self.model) and self._agree(LeanStep(self.model), ModelForward(self.model))
        return LeanStep(self.model) if self._lean else ModelForward(self.model)

    def _agree(self, ours: DecodeStep, theirs: DecodeStep) -> bool:
        return all(_same(a, b) for a, b in zip(self._tried(ours), self._tried(theirs), strict=True))

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


def _same(ours: Tensor, theirs: Tensor) -> bool:
    if ours.shape != theirs.shape:
        return False
    tolerance = TOLERANCE if theirs.element_size() >= 4 else HALF_TOLERANCE
    return bool((ours - theirs).abs().max() <= tolerance * theirs.abs().max())
