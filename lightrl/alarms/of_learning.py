"""Alarms about what was learnt: entropy, KL, gradients, the first pass, held-out scores."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

import torch

from lightrl.alarms.alarm import BEGINNING, TRAINING, WINDOW, Alarm, History
from lightrl.ops.agreement import Agreement, Limits

LEAP = 10.0
"""A single rollout this many times above the limit raises the alarm alone, because the run may fail before there are more."""


@dataclass(eq=False)
class KLBlowUp(Alarm):
    """The KL divergence is larger than in a healthy run.

    Mean over the last 5 rollouts > limit, or ten times the limit in a single one, in nats per token: of `kl` (or `kl_sequence` over the
    mean length) against the reference, and of `approx_kl` between the policies before and after the steps of a rollout. Of runs with
    rollouts only.
    """

    limit: float = 1.0
    step_limit: float = 0.1

    name = "kl_blow_up"
    why = (
        "A policy this far from its start usually no longer writes the language that its reward was made for, and its samples say little "
        "about steps this large."
    )
    advice = (
        "Lower the learning rate, the epochs or the minibatches per rollout, set algorithm.stop_kl, or raise the coefficient of the KL "
        "penalty."
    )

    def seen(self, history: History) -> str | None:
        if history.unit != "rollout":
            # a `kl` there is an objective's own: KTO's reference point is in nats per completion
            return None
        kl, latest = history.mean("kl", WINDOW), history.now("kl")
        if latest is None:
            sequence, length = history.mean("kl_sequence", WINDOW), history.mean("completions/mean_length", WINDOW)
            kl = sequence / length if sequence is not None and length else None
        return _beyond("the KL divergence from the reference", kl, latest, self.limit) or _beyond(
            "`approx_kl` between before and after the steps of a rollout",
            history.mean("approx_kl", WINDOW), history.now("approx_kl"), self.step_limit,
        )  # fmt: skip


def _beyond(what: str, mean: float | None, latest: float | None, limit: float) -> str | None:
    if mean is not None and mean > limit:
        return f"{what} was {mean:.3g} nats per token over the last {WINDOW} rollouts (limit {limit:g})."
    if latest is not None and latest > LEAP * limit:
        return f"{what} was {latest:.3g} nats per token in this rollout (limit {LEAP * limit:g})."
    return None


@dataclass(eq=False)
class EntropyCollapse(Alarm):
    """The entropy has fallen to a small share of its first values, and the reward has not risen.

    Mean over the last 5 rollouts against the mean over the first 5, of `entropy` where it is logged, else of `entropy_estimate`. A
    policy that has become good may be certain, so there is no alarm if the reward has risen by its standard deviation within groups
    at the start.
    """

    limit: float = 0.1

    name = "entropy_collapse"
    why = "A policy whose completions no longer vary finds no better ones, and groups with zero variance teach it nothing."
    advice = (
        "Lower the learning rate, raise the upper clip bound (DecoupledClip), add an EntropyBonus or a KL penalty, or check whether one "
        "phrase earns the reward."
    )

    def seen(self, history: History) -> str | None:
        name = "entropy" if history.now("entropy") is not None else "entropy_estimate"
        before, now = history.mean_at_start(name), history.mean(name, WINDOW)
        if before is None or now is None or before <= 0 or now > self.limit * before:
            return None
        gain = (history.mean("reward", WINDOW) or 0.0) - (history.mean_at_start("reward") or 0.0)
        spread = history.mean_at_start("reward_std") or 0.0
        if gain >= spread > 0:
            return None
        return (
            f"`{name}` fell from {before:.3g} in the first {BEGINNING} rollouts to {now:.3g} nats per token (limit {self.limit:.0%} of it) "
            f"while the reward changed by {gain:+.3g} (its standard deviation within groups was {spread:.3g})."
        )


SIGNS = ("rewards/margins", "margin", "score/std")
"""Numbers of runs without rollouts that explain a jump of the gradient, beside the loss and the learning rate, which all of them log."""


@dataclass(eq=False)
class Gradient(Alarm):
    """A gradient is not finite, or its norm jumps: `grad_norm` > limit x its median over the rollouts before, at least ten of them.

    In a run without rollouts: over the steps before.
    """

    limit: float = 10.0

    name = "gradient"
    why = "One such step can ruin a run: clipping limits its length, not its direction, and a value that is not finite spoils all weights."
    OF_ROLLOUT = "`ratio/max`, `advantages/max` and `completions` of this rollout"
    advice = (
        f"Lower the learning rate, warm it up, set model.max_grad_norm, and look at {OF_ROLLOUT}; "
        "if weights are no longer finite, go back to an earlier checkpoint."
    )
    BEFORE = 10

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
        self.limits = limits or Limits.of(torch.float32)

    def seen(self, history: History) -> str | None:
        mean, far = history.now("ratio/first_pass_mean"), history.now("ratio/first_pass_far")
        if mean is None or far is None:
            return None
        largest = history.now("ratio/first_pass_deviation")
        found = Agreement(math.nan, mean, far, math.inf if largest is None else largest)
        return None if found.within(self.limits) else f"on the first pass over the rollout, {found.against(self.limits)}."


FALLS = 2
"""Validations in a row that must be worse than the one before: a single bad one is noise."""


@dataclass(eq=False)
class ValidationFalls(Alarm):
    """The training reward has risen since the best validation, and the validations have become worse.

    A score is the share of right completions (`val/avg@n`), the reward (`val/reward`) or one that a callback has logged as
    `val/held_out/NAME`, such as a reward that is for validation alone; each is tested alone. Since its best
    value among the last ten validations it has fallen by more than the limit, relative to that value and twice in a row, and
    the mean training reward of the five rollouts before each validation has risen by more than the same limit.
    """

    limit: float = 0.1

    name = "validation_falls"
    why = (
        "The policy gets better at the training reward and worse on held-out prompts: it exploits a mistake in the reward, or learns the "
        "prompts by heart."
    )
    advice = "Read `completions` to see what earns the reward now, correct the reward, add a KL penalty, or stop at the best validation."

    def seen(self, history: History) -> str | None:
        names = history.validations[-1].keys() - {TRAINING} if history.validations else set()
        for name in sorted(names):
            points = [(v[name], v[TRAINING]) for v in history.validations if name in v and TRAINING in v]
            (best, before), (now, reward) = max(points, default=(0.0, 0.0)), points[-1] if points else (0.0, 0.0)
            falls = [b < a for (a, _), (b, _) in pairwise(points[-FALLS - 1 :])]
            fell = len(falls) == FALLS and all(falls) and best - now > self.limit * abs(best)
            if fell and reward - before > self.limit * abs(before):
                return (
                    f"`{name}` fell from its best, {best:.3g}, to {now:.3g}, while the training reward rose from {before:.3g} to "
                    f"{reward:.3g} (limit {self.limit:.0%} each)."
                )
        return None
