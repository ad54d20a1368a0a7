"""Policies that learn from given completions: the arguments that their modules share, and the rows that fit the policy."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import Annotated

import torch
from annotated_types import Ge
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable

from lightrl.data.prompt_data import PromptData
from lightrl.parts.engine import RolloutEngine
from lightrl.parts.environment import Environment, SingleTurn
from lightrl.parts.reward import Reward
from lightrl.policy.source import PolicySource
from lightrl.ranges import BatchSize, Positive, refuse_outside
from lightrl.rollout.decode.transformers_engine import TransformersEngine
from lightrl.training.evaluating.held_out import Evaluation
from lightrl.training.offline.encoded_rows import longest_row
from lightrl.training.offline.offline_module import OfflineModule
from lightrl.training.setup.building import check_room
from lightrl.training.steps.token_budget import MicroBatchTokens
from lightrl.types import Prompt


class OfflinePolicyModule(OfflineModule):
    """Trains a policy on rows of prompts with completions, and can sample completions of the validation prompts."""

    def __init__(
        self,
        policy: PolicySource,
        batch_size: BatchSize = 64,
        max_length: Annotated[int, Ge(2)] | None = None,
        rewards: dict[str, Reward] | None = None,
        engine: RolloutEngine = TransformersEngine(),
        environment: Environment = SingleTurn(),
        micro_batch_tokens: MicroBatchTokens = "auto",
        optimizer: OptimizerCallable = partial(torch.optim.AdamW, lr=1e-5, weight_decay=0.0),
        lr_scheduler: LRSchedulerCallable | None = None,
        max_grad_norm: Positive | None = 1.0,
        evaluation: Evaluation = Evaluation(before_training=False),
    ) -> None:
        """
        Args:
            policy: which policy is trained.
            batch_size: rows per optimizer step over all ranks; a multiple of their number.
            max_length: rows with more tokens are dropped, or refused as `data.too_long` says; null: as many as the policy takes.
            rewards: how sampled completions of the validation prompts are scored, by name; none: nothing is sampled.
            engine: who generates the completions of the evaluation.
            environment: answers the policy in the evaluation; by default nobody does.
            micro_batch_tokens: tokens per forward and backward pass, what rows begin with alike counted once; no influence on the
                gradient. auto: chosen for model and device; null: all at once.
            optimizer: of the policy.
            lr_scheduler: stepped after every optimizer step; null: a constant rate.
            max_grad_norm: gradients are scaled down to this norm; null: never.
            evaluation: how validation and test draw completions.

        Raises:
            ValueError: batch_size below 1, or max_length below 2.
        """
        super().__init__(
            policy,
            batch_size,
            rewards or {},
            engine,
            environment,
            micro_batch_tokens,
            optimizer,
            lr_scheduler,
            max_grad_norm,
            evaluation,
        )
        self.max_length = max_length
        refuse_outside(type(self), vars(self))

    @abstractmethod
    def longest_sequence(self, prompt: Prompt) -> list[int]:
        """As many ids as the prompt's row needs room for.

        Raises:
            ValueError: the row cannot be read.
        """

    def measure_prompts(self, data: PromptData) -> None:
        """Read every row, so that a bad one is named before the first step, and have the data drop or refuse those that are too long."""
        if data.max_prompt_tokens is not None:
            raise ValueError(
                "data.max_prompt_tokens is about prompts alone, and rows here are prompts with completions: set model.max_length instead"
            )
        check_room(self.policy, self.collector.engine.sampling.max_new_tokens)
        data.measure(self.longest_sequence, longest_row(self.policy, self.max_length))
