"""Optimizer steps of the critic alone: the policy keeps its weights, and its optimizer state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from lightning.pytorch.core.optimizer import LightningOptimizer
from torch import Tensor, nn

from lightrl.parts.critic import Critic
from lightrl.policy.policy import Policy
from lightrl.strategies.adapter import StrategyAdapter
from lightrl.training.online.loss import StepLoss
from lightrl.training.online.terms import ValueTerm
from lightrl.training.steps.optimizer_step import MicroBatchLoss, Step
from lightrl.types import PolicyOutput, TrainingBatch

POLICY_GROUP = 0
"""Number of the policy's parameter group."""


@dataclass(frozen=True)
class CriticOnlySteps:
    """Trains a critic on minibatches without touching the policy."""

    part: Critic
    """Says what the critic is fitted to."""
    network: nn.Module
    """Built by the part."""
    policy: Policy
    """Whose hidden states the critic reads."""
    adapter: StrategyAdapter
    """Of the strategy."""
    optimizer: LightningOptimizer
    """Of policy and critic."""
    step_on: Callable[[TrainingBatch, Callable[[TrainingBatch], MicroBatchLoss]], Step]
    """Makes an optimizer step of micro-batches."""

    def update(self, minibatch: TrainingBatch) -> None:
        """One optimizer step; none if no token has a value to be learnt."""
        loss = StepLoss([ValueTerm(self.part)], minibatch, self.adapter.total, self.outputs)
        if loss.empty:
            return
        rows = loss.rows_of(minibatch)
        unmoved = [p for p in self.policy.parameters() if p.requires_grad]

        def loss_of(micro: TrainingBatch) -> MicroBatchLoss:
            found = loss(micro)
            return found._replace(loss=found.loss + self.adapter.zero_loss(unmoved))

        with self.adapter.frozen(self.optimizer, [POLICY_GROUP]):
            self.step_on(rows, loss_of)

    def outputs(self, batch: TrainingBatch, mask: Tensor) -> PolicyOutput:
        """Values of the selected tokens; the policy has no part in the gradient."""
        values = self.policy.values(batch.host.input_ids, mask, self.network)
        return PolicyOutput(logprobs=torch.zeros_like(values), values=values)


def critic_groups(part: Critic | None, network: nn.Module | None) -> list[dict[str, Any]]:
    """The optimizer's parameter group of a critic, with a learning rate of its own if it has one; none without a critic."""
    if part is None or network is None:
        return []
    rate = {} if part.learning_rate is None else {"lr": part.learning_rate}
    return [{"params": list(network.parameters()), **rate}]
