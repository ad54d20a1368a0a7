"""The gradient explodes."""

from __future__ import annotations

import math
from statistics import median

from lightrl.alarms.alarm import Alarm
from lightrl.alarms.history import History

SIGNS = ("rewards/margins", "margin", "score/std")
"""Numbers of runs without rollouts that explain a jump of the gradient, beside the loss and the learning rate, which all of them log."""


class Gradient(Alarm):
    """A gradient is not finite, or its norm jumps: `grad_norm` > limit x its median over the rollouts before, at least ten of them.

    In a run without rollouts: over the steps before.
    """

    name = "gradient"
    why = "One such step can ruin a run: clipping limits its length, not its direction, and a value that is not finite spoils all weights."
    OF_ROLLOUT = "`ratio/max`, `advantages/max` and `completions` of this rollout"
    advice = (
        f"Lower the learning rate, warm it up, set model.max_grad_norm, and look at {OF_ROLLOUT}; "
        "if weights are no longer finite, go back to an earlier checkpoint."
    )
    BEFORE = 10

    def __init__(self, limit: float = 10.0) -> None:
        """
        Args:
            limit: multiple of the median, > 1.
        """
        self.limit = limit

    def advice_for(self, history: History) -> str:
        if history.unit == "rollout":
            return self.advice
        # the history has no numbers of this step that are not finite
        logged = [f"`{name}`" for name in SIGNS if any(name in numbers for numbers in history.latest)]
        return self.advice.replace(self.OF_ROLLOUT, f"{', '.join(['`lr`', *logged])} and `loss` of this step")

    def seen(self, history: History) -> str | None:
        if history.now("nonfinite_gradients"):
            steps = f"{history.now('nonfinite_gradients'):g} optimizer steps of " if history.unit == "rollout" else ""
            return f"the gradient of {steps}this {history.unit} was not finite."
        now = history.now("grad_norm")
        if now is None:
            return None
        if not math.isfinite(now):
            return f"`grad_norm` is {now}."
        before = [numbers["grad_norm"] for numbers in list(history.latest)[:-1] if math.isfinite(numbers.get("grad_norm", math.nan))]
        usual = median(before) if len(before) >= self.BEFORE else 0.0
        if usual <= 0 or now <= self.limit * usual:
            return None
        return f"`grad_norm` was {now:.3g}, {now / usual:.0f} times the median of the {history.unit}s before (limit {self.limit:g} times)."
