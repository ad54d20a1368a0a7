"""An engine with weights of its own in this process: quick, and as wrong as a test wants it."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import replace

from lightrl import PolicyWeights, Request, Result, TinyPolicy, TransformersEngine
from lightrl.policy.weights import TrainerWeights


class OwnCopy(TransformersEngine):
    """Decodes with a copy of the policy, which later updates may miss, and may spoil the log-probs of all tokens."""

    in_process = False

    def __init__(
        self, updates: float = math.inf, factor: float = 1.0, tolerance: float | None = None, replaced: TinyPolicy | None = None
    ) -> None:
        super().__init__(max_new_tokens=8)
        self.updates, self.factor, self.logprob_tolerance, self.replaced = updates, factor, tolerance, replaced
        self.copy: TrainerWeights | None = None

    def update_weights(self, weights: PolicyWeights, version: int) -> None:
        if self.copy is None or self.updates > 0:
            self.copy = TrainerWeights(copy.deepcopy(weights.policy) if self.replaced is None else self.replaced.build())
        self.updates -= 1
        super().update_weights(self.copy, version)

    def results(self) -> list[Result]:
        return [replace(result, logprobs=[p + math.log(self.factor) for p in result.logprobs]) for result in super().results()]


class Warmer(OwnCopy):
    """Samples at 1.3 times the temperature that it was asked for."""

    def submit(self, requests: Sequence[Request]) -> None:
        warm = [replace(one, sampling=replace(one.sampling, temperature=1.3 * one.sampling.temperature)) for one in requests]
        super().submit(warm)


class Untempered(OwnCopy):
    """Its log-probs are right at temperature 1 alone."""

    def submit(self, requests: Sequence[Request]) -> None:
        self.asked = {one.id: one.sampling.temperature for one in requests}
        super().submit(requests)

    def results(self) -> list[Result]:
        return [replace(one, logprobs=[self.asked[one.id] * p for p in one.logprobs]) for one in super().results()]


class Drops(OwnCopy):
    """Takes the weights without the adapters."""

    def update_weights(self, weights: PolicyWeights, version: int) -> None:
        super().update_weights(weights, version)
        assert self.copy is not None
        for name, parameter in self.copy.policy.model.named_parameters():
            if "lora_B" in name:
                parameter.data.zero_()


class OneUpdateLate(OwnCopy):
    """Its copy is always the one from before the last update."""

    def __init__(self, tolerance: float | None = None) -> None:
        super().__init__(tolerance=tolerance)
        self.newest: TrainerWeights | None = None

    def update_weights(self, weights: PolicyWeights, version: int) -> None:
        late = self.newest
        self.newest = TrainerWeights(copy.deepcopy(weights.policy))
        super().update_weights(late or self.newest, version)
