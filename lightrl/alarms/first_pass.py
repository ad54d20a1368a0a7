"""Engine and trainer compute different log-probs from the same weights."""

from __future__ import annotations

import math

import torch

from lightrl.alarms.alarm import Alarm
from lightrl.alarms.history import History
from lightrl.ops.agreement import Agreement, Limits


class FirstPass(Alarm):
    """Before the first step of a rollout log-probs are not the engine's: `ratio/first_pass_mean` or `ratio/first_pass_far` > its limit."""

    name = "first_pass_ratio"
    why = (
        "Before the first step the policy that sampled is the policy that is trained; what differs by more than rounding was sampled from "
        "other weights or in another way, and is learnt from as if it were the policy's own."
    )
    advice = (
        "If it grows with the rollouts, the engine does not get the new weights: check its `update_weights`. If it is there from the "
        "start, compare precisions, temperature and the model's config."
    )

    def __init__(self, limits: Limits | None = None) -> None:
        """
        Args:
            limits: on what rounding explains; None: those of float32.
        """
        self.limits = limits or Limits.of(torch.float32)

    def seen(self, history: History) -> str | None:
        mean, far = history.now("ratio/first_pass_mean"), history.now("ratio/first_pass_far")
        if mean is None or far is None:
            return None
        largest = history.now("ratio/first_pass_deviation")
        found = Agreement(math.nan, mean, far, math.inf if largest is None else largest)
        return None if found.within(self.limits) else f"on the first pass over the rollout, {found.against(self.limits)}."
