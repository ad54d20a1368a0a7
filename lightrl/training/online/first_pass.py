"""On the first pass the policy has not moved: its log-probs must be those of the engine that sampled."""

from __future__ import annotations

import warnings

from lightrl.ops.agreement import Agreement, Limits
from lightrl.training.reports.statistics import StatisticsLedger


class FirstPassCheck:
    """Compares the log-probs of every first pass over a rollout with the engine's; only the first one of a run can warn."""

    def __init__(self) -> None:
        self._seen = False

    def check(self, step: StatisticsLedger, ledger: StatisticsLedger, fresh: bool, limits: Limits) -> None:
        """Report the differences of a first pass, and warn if rounding does not explain those of the run's first one.

        Args:
            step: the statistics of an optimizer step.
            ledger: receives the differences.
            fresh: the rows were sampled with the present weights. A sampler may hand on rows of an older policy, whose log-probs differ.
            limits: on what rounding explains.
        """
        # to look at the numbers is to wait for the device
        if not fresh:
            return
        total, tokens = step.local("engine/difference")
        if not tokens:
            return
        far, largest = step.local("engine/far")[0], step.local("engine/largest")[0]
        ledger.add("ratio/first_pass_deviation", largest, reduce="max")
        ledger.add("ratio/first_pass_mean", total / tokens)
        ledger.add("ratio/first_pass_far", far / tokens)
        found = Agreement(tokens, total / tokens, far / tokens, largest)
        if not self._seen and not found.within(limits):
            warnings.warn(
                f"the engine's log-probs are not the trainer's: on the first pass, with unchanged weights, {found.against(limits)}. "
                "Compare the engine's weights, temperature and precision with the trainer's",
                stacklevel=4,
            )
        self._seen = True
