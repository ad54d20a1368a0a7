"""Rewards for validation alone: the policy is never trained on them, so that it cannot learn to exploit them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from lightrl import Reward
from lightrl.ops.moments import row_values
from lightrl.rewards.reward_set import RewardSet
from lightrl.training.evaluating.collector import Collector
from lightrl.training.policy_module import PolicyModule
from lightrl.training.reports.run_ledger import log_evaluation
from lightrl.training.reports.statistics import StatisticsLedger


class HeldOutRewards(Callback):
    """Scores the completions of every validation with rewards that the policy is never trained on.

    The mean score of each is logged as `val/held_out/NAME`. The alarm `validation_falls` watches it: it is raised where the training
    reward has risen since the best validation and this score has fallen.
    """

    def __init__(self, rewards: dict[str, Reward]) -> None:
        """
        Args:
            rewards: by name, as in `model.rewards`; their weights and normalisations have no effect.

        Raises:
            ValueError: there is none, or a gate leads nowhere.
        """
        if not rewards:
            raise ValueError("HeldOutRewards has no reward: name at least one, for example rewards: {exact: ExactMatch}")
        self.rewards = RewardSet(rewards, needed=False)
        self._numbers = StatisticsLedger()

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Refuse rewards that lack a column of the data, or that the policy is trained on too."""
        collector = _collector(pl_module)
        weights = {} if collector.rewards is None else collector.rewards.weights
        if both := sorted(name for name in self.rewards.rewards.keys() & weights.keys() if weights[name] != 0):
            raise ValueError(
                f"HeldOutRewards has {both[0]!r}, and so has model.rewards, on which the policy is trained: give it another name if it is "
                "another reward, or the weight 0 there"
            )
        self.rewards.check(frozenset(collector.data.columns()))

    def on_validation_batch_end(self, trainer: Trainer, pl_module: LightningModule, outputs: Any, *arguments: object) -> None:
        """Score the completions of a batch."""
        if not isinstance(outputs, Mapping):
            return
        scored = self.rewards.score(outputs["samples"])
        for name, part in scored.reward_parts.items():
            self._numbers.add(f"held_out/{name}", row_values(part))

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log the mean of each reward over all ranks, over the rows that have a score."""
        if isinstance(pl_module, PolicyModule):
            log_evaluation(pl_module, self._numbers.reduce(pl_module.learner.adapter.gather))

    def on_test_batch_end(self, *arguments: Any) -> None:
        """As after a batch of the validation."""
        self.on_validation_batch_end(*arguments)

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """As after a validation; logged as `test/held_out/NAME`."""
        self.on_validation_epoch_end(trainer, pl_module)

    def state_dict(self) -> dict[str, Any]:
        """The state of rewards that keep one."""
        return self.rewards.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        self.rewards.load_state_dict(state_dict)

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """End the processes of the rewards."""
        self.rewards.close()


def _collector(module: LightningModule) -> Collector:
    if isinstance(module, PolicyModule) and module.collector.rewards is not None:
        return module.collector
    raise ValueError(
        f"HeldOutRewards scores completions, and this {type(module).__name__} samples none in its validation: leave it out, or name a "
        "reward in model.rewards (with the weight 0 in a run that learns from none)"
    )
