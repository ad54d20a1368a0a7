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

PROMPTS = ((1, 2, 3, 4, 5), (6, 7), (8, 9), (10, 11))
"""That are tried together, and the first and longest one alone too, for which steps have other products."""
FURTHER = (1, 2)
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
        several, lone = self._read(PROMPTS), self._read(PROMPTS[:1])

        def found(step: DecodeStep) -> list[Tensor]:
            return _decoded(several.branched(step)) + _decoded(lone.branched(step))

        expected = _decoded(several.branched(own[1]))
        # without padding it is as if it were alone
        expected += [numbers[:1] for numbers in expected]
        if (recorder := recorder_for(self.model)) is not None:
            graphs = GraphStep(self.model, recorder)
            if not _agrees(found(graphs), expected):
                warnings.warn("decoding goes on without CUDA graphs, and is slower: they give other numbers than the model", stacklevel=2)
            elif graphs.refusal is None:
                form = partial(GraphStep, recorder=recorder)
                return form, form(self.model), "CUDA graphs of the lean step"
        lean = LeanStep(self.model)
        return (LeanStep, lean, "the lean step") if _agrees(found(lean), expected) else own

    def _read(self, prompts: tuple[tuple[int, ...], ...], completions: int = 1) -> IncrementalModel:
        """A batch that has read prompts; no step has a part in that."""
        vocabulary = self.model.config.get_text_config().vocab_size
        batch = IncrementalModel(self.model, self._max_positions, lambda: ModelForward(self.model))
        batch.prefill([[token % vocabulary for token in prompt] for prompt in prompts], [completions] * len(prompts))
        return batch

    def _check_cache(self) -> None:
        """Compare logits behind the cache with those of whole rows; where numbers are narrow, rounding would hide a difference."""
        parameter = next(self.model.parameters())
        if parameter.element_size() < 4 or torch.is_autocast_enabled(parameter.device.type):
            return
        vocabulary = self.model.config.get_text_config().vocab_size
        together = IncrementalModel(self.model, self._max_positions, lambda: ModelForward(self.model)).takes_padding
        for prompts in (PROMPTS[:1], PROMPTS if together else PROMPTS[1:2]):
            # some models keep a state of their own, which is not copied for the second completion of a prompt
            *_, logits = _logits(self._read(prompts, 2), 2 * len(prompts), parameter.device)
            rows = ([*(token % vocabulary for token in prompt), *FURTHER] for prompt in prompts for _ in range(2))
            alone = (torch.tensor([row], device=parameter.device) for row in rows)
            whole = torch.stack([self.model(input_ids=ids, use_cache=False).logits[0, -1] for ids in alone])
            difference = float((logits - whole).abs().max() / whole.abs().max())
            if difference > CACHE_TOLERANCE:
                raise ValueError(
                    f"{type(unwrapped(self.model)).__name__} gives other logits behind its cache than for whole rows, by {difference:.2g} "
                    "of the largest, so TransformersEngine cannot decode with it: ratios would be wrong before the first step.\n"
                    "Set an engine that does not use transformers, such as --model.engine VLLMEngine"
                )


def _decoded(batch: IncrementalModel) -> list[Tensor]:
    # a head of zeros would hide what stands before it
    return [*_logits(batch, len(batch.keys[0]), batch.keys[0].device), *batch.keys]


def _logits(batch: IncrementalModel, rows: int, device: torch.device) -> list[Tensor]:
    return [batch.step(torch.full((rows,), token, device=device)) for token in FURTHER]


def _agrees(found: list[Tensor], expected: list[Tensor]) -> bool:
    # the keys are as narrow as what the layers compute in, and the logits may be wider
    exact = min(theirs.element_size() for theirs in expected) >= 4 and torch.get_float32_matmul_precision() == "highest"
    tolerance = TOLERANCE if exact else HALF_TOLERANCE
    pairs = zip(found, expected, strict=True)
    return all(a.shape == b.shape and bool((a - b).abs().max() <= tolerance * b.abs().max()) for a, b in pairs)
