"""On the first pass the policy has not moved: every importance ratio must be 1."""

from __future__ import annotations

import warnings

import torch

from lightrl.training.precision import tolerance
from lightrl.training.statistics import StatisticsLedger


class FirstPassCheck:
    """Checks the ratios of every first pass over a rollout; only the first one of a run can warn."""

    def __init__(self) -> None:
        self._seen = False

    def check(self, step: StatisticsLedger, ledger: StatisticsLedger, fresh: bool, comparable: bool, dtype: torch.dtype) -> None:
        """Report the largest deviation of a first pass, and warn if the first one of the run is too large.

        Args:
            step: the statistics of an optimizer step.
            ledger: receives the deviation.
            fresh: the rows were sampled with the present weights. A sampler may hand on rows of an older policy, whose ratios need not
                be 1.
            comparable: the old log-probs are the engine's own, and the engine says that they are exact.
            dtype: that the policy's layers compute in.
        """
        if not fresh:
            return
        deviation, count = step.local("ratio/max_deviation")
        if count:
            ledger.add("ratio/first_pass_deviation", deviation, reduce="max")
        if not self._seen and comparable:
            warn_of_deviation(step, dtype)
        self._seen = True


def warn_of_deviation(step: StatisticsLedger, dtype: torch.dtype) -> None:
    """Warn, with numbers, if the first minibatch of a run has ratios other than 1.

    Args:
        step: what the first optimizer step reported.
        dtype: that the policy's layers compute in.
    """
    deviation, count = step.local("ratio/max_deviation")
    limit = tolerance(dtype)
    if count and deviation > limit:
        ratios, tokens = step.local("ratio/mean")
        mean = ratios / max(tokens, 1.0)
        warnings.warn(
            f"the engine's log-probs are not the trainer's: on the first pass, with unchanged weights, the importance ratio should be 1, "
            f"but it deviates by up to {deviation:.3g} (mean ratio {mean:.6f}, tolerance {limit:g} for {dtype}). Every clip and every "
            "gradient is off by as much. Set algorithm.old_logprobs to recompute, and compare the engine with a teacher-forced forward",
            stacklevel=4,
        )
