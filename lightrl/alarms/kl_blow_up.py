"""The policy moves too far from its reference, or within one rollout."""

from __future__ import annotations

from lightrl.alarms.alarm import WINDOW, Alarm
from lightrl.alarms.history import History

LEAP = 10.0
"""A single rollout this many times above the limit raises the alarm alone, because the run may fail before there are more."""


class KLBlowUp(Alarm):
    """The KL divergence is larger than in a healthy run.

    Mean over the last 5 rollouts > limit, or ten times the limit in a single one, in nats per token: of `kl` (or `kl_sequence` over the
    mean length) against the reference, and of `approx_kl` between the policies before and after the steps of a rollout. Of runs with
    rollouts only.
    """

    name = "kl_blow_up"
    why = (
        "A policy this far from its start usually no longer writes the language that its reward was made for, and its samples say little "
        "about steps this large."
    )
    advice = (
        "Lower the learning rate, the epochs or the minibatches per rollout, set algorithm.stop_kl, or raise the coefficient of the KL "
        "penalty."
    )

    def __init__(self, limit: float = 1.0, step_limit: float = 0.1) -> None:
        """
        Args:
            limit: against the reference, nats per token.
            step_limit: within one rollout, nats per token.
        """
        self.limit, self.step_limit = limit, step_limit

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
