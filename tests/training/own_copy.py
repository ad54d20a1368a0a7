"""An engine with weights of its own in this process: quick, and as wrong as a test wants it."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

from lightrl import PolicyWeights, Result, TransformersEngine
from lightrl.policy.weights import TrainerWeights


class OwnCopy(TransformersEngine):
    """Decodes with a copy of the policy, which later updates may miss, and may spoil the log-probs of the first token."""

    in_process = False

    def __init__(self, updates: float = math.inf, factor: float = 1.0, tolerance: float | None = None) -> None:
        super().__init__(max_new_tokens=8)
        self.updates, self.factor, self.logprob_tolerance = updates, factor, tolerance
        self.copy: TrainerWeights | None = None

    def update_weights(self, weights: PolicyWeights, version: int) -> None:
        if self.copy is None or self.updates > 0:
            self.copy = TrainerWeights(copy.deepcopy(weights.policy))
        self.updates -= 1
        super().update_weights(self.copy, version)

    def results(self) -> list[Result]:
        return [replace(result, logprobs=[p + math.log(self.factor) for p in result.logprobs]) for result in super().results()]


class OneUpdateLate(OwnCopy):
    """Its copy is always the one from before the last update."""

    def __init__(self) -> None:
        super().__init__(tolerance=math.inf)
        self.newest: TrainerWeights | None = None

    def update_weights(self, weights: PolicyWeights, version: int) -> None:
        late = self.newest
        self.newest = TrainerWeights(copy.deepcopy(weights.policy))
        super().update_weights(late or self.newest, version)
