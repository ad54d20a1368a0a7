"""Watches a run's numbers and says when something goes wrong: on the terminal and in the log."""

from __future__ import annotations

import math
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from rich.console import Console

from lightrl.alarms.alarm import Alarm, History
from lightrl.alarms.of_learning import EntropyCollapse, FirstPass, Gradient, KLBlowUp, ValidationFalls
from lightrl.alarms.of_rollouts import Dominance, LengthReward, OpenedTurns, Truncation, UncalledTools, Unscored, ZeroVariance
from lightrl.callbacks.logged_texts import add_text
from lightrl.ops.agreement import Limits
from lightrl.training.online.policy_optimization import PolicyOptimization
from lightrl.training.policy_module import PolicyModule
from lightrl.training.reports.run_ledger import log_numbers

QUIET = 50
"""Rollouts (or steps, in a run without any) without the sign after which an alarm is over, so that one that flickers is raised once."""


class Alarms(Callback):
    """Warns once when something starts to go wrong, and again when it comes back after fifty rollouts (or steps) without.

    Each warning says what was seen, why it matters and what to try; in the log it is a text, and `alarms/{name}` turns 1 in every log.
    """

    in_every_run = True

    def __init__(
        self,
        zero_variance: float = 0.95,
        entropy_collapse: float = 0.1,
        kl: float = 1.0,
        step_kl: float = 0.1,
        truncation: float = 0.25,
        first_pass_ratio: float | None = None,
        reward_dominance: float = 0.95,
        validation_falls: float = 0.1,
        length_reward: float = 0.8,
        unscored: float = 0.1,
        gradient: float = 10.0,
        opened_turns: float = 0.05,
        only: list[str] | None = None,
    ) -> None:
        """
        Args:
            zero_variance: share of groups with equal rewards, in [0, 1].
            entropy_collapse: share of the entropy at the start, in [0, 1].
            kl: against the reference, nats per token.
            step_kl: `approx_kl` within a rollout, nats per token.
            truncation: share of completions that are cut off, in [0, 1].
            first_pass_ratio: mean absolute difference of log-probs to the engine's before the first step of a rollout, in nats; null: what
                rounding explains in the dtype that the trainer computes in.
            reward_dominance: share of one reward in what tells completions apart, in [0, 1].
            validation_falls: relative fall of the validation score while the reward rises, in [0, 1].
            length_reward: absolute correlation of length and reward within groups, in [0, 1].
            unscored: share of completions without a score, in [0, 1].
            gradient: gradient norm as a multiple of its median.
            opened_turns: share of the policy's turns that open a turn of another author, in [0, 1].
            only: names of the alarms that may be raised; null: all; []: none.

        Raises:
            ValueError: `only` has a name that no alarm has.
        """
        self._first_pass, self._chosen_limit = FirstPass(), first_pass_ratio
        everything: list[Alarm] = [
            ZeroVariance(zero_variance),
            EntropyCollapse(entropy_collapse),
            KLBlowUp(kl, step_kl),
            Truncation(truncation),
            self._first_pass,
            Dominance(reward_dominance),
            ValidationFalls(validation_falls),
            LengthReward(length_reward),
            Unscored(unscored),
            Gradient(gradient),
            OpenedTurns(opened_turns),
            UncalledTools(),
        ]
        known = [alarm.name for alarm in everything]
        if unknown := sorted(set(only or []) - set(known)):
            raise ValueError(f"Alarms has no alarm {', '.join(map(repr, unknown))}. There are: {', '.join(known)}")
        self.alarms = [alarm for alarm in everything if only is None or alarm.name in only]
        self.history = History()
        self.raised: dict[str, int] = {}
        """Alarms that are on, each with the last rollout that showed the sign."""

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Take the limits of the dtype that the trainer computes in, unless one was chosen; see whether the run counts rollouts."""
        self.history.unit = "rollout" if isinstance(pl_module, PolicyOptimization) else "step"
        if self._chosen_limit is not None:
            self._first_pass.limits = Limits.of(torch.float32, self._chosen_limit)
        elif isinstance(pl_module, PolicyModule):
            self._first_pass.limits = pl_module.collector.agreement_limits

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *arguments: object) -> None:
        """Look at the numbers of a rollout (or step) that is over."""
        if isinstance(pl_module, PolicyModule) and (numbers := pl_module.numbers):
            # what is not finite does not belong in a mean, nor in a checkpoint of JSON values
            self.history.add({name: value for name, value in numbers.items() if name == "grad_norm" or math.isfinite(value)})
            self.check(trainer)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Remember how a validation went."""
        metrics = trainer.callback_metrics.items()
        others = ("val/avg@", "val/held_out/")
        scores = {name: float(value) for name, value in metrics if name == "val/reward" or name.startswith(others)}
        if scores and not trainer.sanity_checking:
            self.history.add_validation(scores)

    def check(self, trainer: Trainer) -> None:
        """Ask every alarm; tell of those that start, and note those that are over."""
        for alarm in self.alarms:
            seen = alarm.seen(self.history)
            if seen is not None and alarm.name not in self.raised:
                self._tell(trainer, alarm, seen)
            if seen is not None:
                self.raised[alarm.name] = self.history.count
            elif self.history.count - self.raised.get(alarm.name, self.history.count) >= QUIET:
                del self.raised[alarm.name]
                log_numbers(trainer, {f"alarms/{alarm.name}": 0.0})

    def state_dict(self) -> dict[str, Any]:
        """The history and the alarms that are on, for a resumed run."""
        return {"history": self.history.state_dict(), "raised": self.raised}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        self.history.load_state_dict(state_dict["history"])
        self.raised = dict(state_dict["raised"])

    def _tell(self, trainer: Trainer, alarm: Alarm, seen: str) -> None:
        log_numbers(trainer, {f"alarms/{alarm.name}": 1.0})
        if trainer.is_global_zero:
            when, advice = f"{self.history.unit} {self.history.count}", alarm.advice_for(self.history)
            line = f"Alarm {alarm.name}, {when}: {seen} {alarm.why} {advice}"
            Console(stderr=True, highlight=False).print(line, style="yellow", markup=False)
            text = f"**{when.capitalize()}:** {seen}\n\n{alarm.why}\n\n*To try:* {advice}"
            add_text(trainer, f"alarms/{alarm.name}", text)
