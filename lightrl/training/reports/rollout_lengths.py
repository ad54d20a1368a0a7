"""Lengths and finish reasons of completions, in training and in evaluation."""

from __future__ import annotations

from lightrl.training.reports.statistics import StatisticsLedger
from lightrl.types import Rollout


def report_lengths(ledger: StatisticsLedger, rollout: Rollout) -> None:
    """Report them under the names of the field."""
    lengths = rollout.response_lengths.double()
    ledger.add("completions/mean_length", lengths)
    ledger.add("completions/min_length", lengths, reduce="min")
    ledger.add("completions/max_length", lengths, reduce="max")
    ledger.add("completions/clipped_ratio", rollout.truncated.double())
