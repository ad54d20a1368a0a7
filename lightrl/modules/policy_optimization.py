"""The walk of a batch: rollout, reward, optimisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jsonargparse import lazy_instance
from lightning.pytorch import LightningModule
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable

from lightrl.algorithms.algorithm import Algorithm
from lightrl.modules.evaluation import Evaluation
from lightrl.parts.engine import RolloutEngine
from lightrl.parts.reward import Reward
from lightrl.policy.source import PolicySource
from lightrl.rollout.transformers_engine import TransformersEngine


class PolicyOptimization(LightningModule):
    """Trains a policy on its own completions: rollout, reward and optimisation, once per Lightning epoch."""

    def __init__(
        self,
        policy: PolicySource,
        algorithm: Algorithm,
        rewards: dict[str, Reward],
        engine: RolloutEngine = lazy_instance(TransformersEngine),
        prompts_per_rollout: int = 32,
        micro_batch_tokens: int | None = 8192,
        optimizer: OptimizerCallable = lambda p: torch.optim.AdamW(p, lr=1e-6, weight_decay=0.0),
        lr_scheduler: LRSchedulerCallable = lambda o: torch.optim.lr_scheduler.ConstantLR(o, factor=1.0),
        max_grad_norm: float | None = 1.0,
        evaluation: Evaluation = Evaluation(),
        seed: int = 0,
    ) -> None:
        """
        Args:
            policy: which policy is trained.
            algorithm: the bundle of parts that says how it learns.
            rewards: what a completion is worth, by name; a bare import path is shorthand for `Function`.
            engine: who generates the completions.
            prompts_per_rollout: prompts (groups) per rollout over all ranks; rows are this times the sampler's group size.
            micro_batch_tokens: padded tokens per forward and backward pass; no influence on the gradient. null: all at once.
            optimizer: of the policy and the critic.
            lr_scheduler: stepped after every optimizer step.
            max_grad_norm: gradients are scaled down to this norm; null: never.
            evaluation: how validation and test draw completions.
            seed: of the rollouts and of the order of minibatches.
        """
        super().__init__()
