"""Checks of the statistics of an optimizer step: whether the policy has moved too far, and whether the engine had its weights."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch

from lightrl.ops.agreement import Agreement, Limits
from lightrl.ranks import Ranks
from lightrl.training.reports.statistics import Report, StatisticsLedger


@dataclass(frozen=True)
class EarlyStop:
    """Vetoes a step whose KL(old || new), mean over tokens of all ranks, exceeds 1.5 times a limit."""

    stop_kl: float | None
    """The limit in nats; None: never."""
    ranks: Ranks
    """That share the step."""

    def __call__(self, step: StatisticsLedger) -> bool:
        """Whether the policy has moved too far, by the statistics of this rank's micro-batches."""
        if self.stop_kl is None:
            return False
        kl, tokens = self.ranks.total(torch.tensor(step.local("approx_kl"), dtype=torch.float64)).tolist()
        return bool(kl > 1.5 * self.stop_kl * tokens)


class FirstPassCheck:
    """Compares the log-probs of every first pass over a rollout with the engine's; only the first one of a run can warn."""

    def __init__(self) -> None:
        self._seen = False

    def check(self, step: StatisticsLedger, limits: Limits) -> Report:
        """The differences of a first pass; a warning if rounding does not explain those of the run's first one.

        Args:
            step: the statistics of an optimizer step on rows that were sampled with the present weights. A sampler may hand on rows of an
                older policy, whose log-probs differ.
            limits: on what rounding explains.
        """
        report = Report()
        total, tokens = step.local("engine/difference")
        if not tokens:
            return report
        far, largest = step.local("engine/far")[0], step.local("engine/largest")[0]
        report.add("ratio/first_pass_deviation", largest, reduce="max")
        report.add("ratio/first_pass_mean", total / tokens)
        report.add("ratio/first_pass_far", far / tokens)
        found = Agreement(tokens, total / tokens, far / tokens, largest)
        if not self._seen and not found.within(limits):
            warnings.warn(
                f"the engine's log-probs are not the trainer's: on the first pass, with unchanged weights, {found.against(limits)}. "
                "Compare the engine's weights, temperature and precision with the trainer's",
                stacklevel=4,
            )
        self._seen = True
        return report
