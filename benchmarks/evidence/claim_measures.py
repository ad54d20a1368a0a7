"""The measures of benchmarks/evidence/claim_list.py: numbers of a run, from its log."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightrl_runs.report.logs import RunLog

from benchmarks.evidence.claim_list import ROLLOUTS, STEPS
from lightrl.ops.moments import group_statistics
from lightrl.training.reports.run_ledger import place_in_log

LEARNT = 0.6
"""Held-out reward from which a run has learnt."""
GROUP, PROMPTS = 8, 32
"""Completions per prompt and prompts per rollout."""
EASY, HARD = 0.75, 0.25
"""Share of right answers from which a prompt is easy, and up to which it is hard."""


class RowNumbers(Callback):
    """Logs what the measures need and no run logs by itself: what the advantages of single rows and groups are."""

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log the rollout that has just been learnt from."""
        module: Any = pl_module
        experience = module.experience
        weight = (experience.advantages.abs() * experience.response_mask).sum(1).double()
        right = group_statistics(experience.rewards, experience.group, experience.scorable).mean
        edge = (right >= EASY) | (right <= HARD)
        numbers = {"rows_with_gradient": float((weight > 0).double().mean())}
        if float(weight.sum()) > 0:
            numbers["weight_of_easy_and_hard"] = float(torch.where(edge, weight, 0.0).sum() / weight.sum())
        for logger in trainer.loggers:
            logger.log_metrics({f"claims/{name}": value for name, value in numbers.items()}, step=place_in_log(trainer))


def values(log: RunLog, name: str, late: bool = False) -> list[float]:
    """Finite values of a number, those of the last quarter of the run only if wanted."""
    series = log.numbers.get(name, {})
    return [series[x] for x in sorted(series) if math.isfinite(series[x]) and (not late or x > 0.75 * ROLLOUTS)]


def mean_of(name: str, late: bool = False) -> Callable[[RunLog], float]:
    """The mean of a number over a run or its last quarter; NaN where it was not logged."""

    def measure(log: RunLog) -> float:
        found = values(log, name, late)
        return sum(found) / len(found) if found else math.nan

    return measure


def rollouts_to_learn(log: RunLog) -> int:
    """Rollouts until the first validation above `LEARNT`; the length of the run where there is none."""
    reached = [when for when, value in sorted(log.numbers["val/reward"].items()) if value >= LEARNT]
    return reached[0] if reached else ROLLOUTS


def completions_until(log: RunLog, rollout: int) -> float:
    """Completions that were sampled up to a rollout, those that a sampler threw away included."""
    drawn = log.numbers.get("sampling/prompts", {})
    return float(sum(GROUP * drawn.get(when, PROMPTS) for when in range(1, rollout + 1)))


MEASURES: dict[str, tuple[str, Callable[[RunLog], float]]] = {
    "late_entropy": ("`entropy_estimate`, mean of the last quarter", mean_of("entropy_estimate", late=True)),
    "late_length_of_wrong": (
        "`completions/mean_length_wrong`, mean of the last quarter",
        mean_of("completions/mean_length_wrong", late=True),
    ),
    "weight_of_easy_and_hard": (
        f"share of the absolute advantages on prompts with at most {HARD:.0%} or at least {EASY:.0%} right answers",
        mean_of("claims/weight_of_easy_and_hard"),
    ),
    "steps_to_learn": (f"optimizer steps until {LEARNT} of held-out prompts are right", lambda log: float(STEPS * rollouts_to_learn(log))),
    "completions_to_learn": (
        f"completions sampled until {LEARNT} of held-out prompts are right",
        lambda log: completions_until(log, rollouts_to_learn(log)),
    ),
    "rows_with_gradient": ("share of completions with an advantage that is not 0", mean_of("claims/rows_with_gradient")),
    "clipped_tokens": ("`clip_ratio/region`, mean of the run", mean_of("clip_ratio/region")),
    "spread_of_ratio": ("`ratio/max_deviation`, mean of the run", mean_of("ratio/max_deviation")),
    "late_truncation": ("`completions/clipped_ratio`, mean of the last quarter", mean_of("completions/clipped_ratio", late=True)),
    "late_held_out": ("`val/reward`, mean of the last quarter", mean_of("val/reward", late=True)),
    "avg@32": ("`val/avg@32` at the end", lambda log: values(log, "val/avg@32")[-1]),
    "late_length": ("`completions/mean_length`, mean of the last quarter", mean_of("completions/mean_length", late=True)),
    "completions": ("completions sampled", lambda log: completions_until(log, ROLLOUTS)),
    "first_deviation_of_advantages": ("`advantages/std` of the first rollout", lambda log: values(log, "advantages/std")[0]),
}
"""What each is, and how it is found."""
