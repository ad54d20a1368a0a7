"""Training on given rows: steps, epochs, the evaluation on held-out rows, and the arguments that policies on them share."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, TypeVar

import torch
from annotated_types import Ge
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable

from lightrl.data.loaders import PromptBatch
from lightrl.data.prompt_data import PromptData
from lightrl.ops.batching import split_to
from lightrl.parts.engine import RolloutEngine
from lightrl.parts.environment import Environment, SingleTurn
from lightrl.parts.reward import Reward
from lightrl.policy.policy import Policy
from lightrl.policy.source import PolicySource
from lightrl.ranges import BatchSize, Positive, refuse_outside
from lightrl.rollout.decode.transformers_engine import TransformersEngine
from lightrl.training.evaluating.evaluator import Evaluation
from lightrl.training.offline.encoded_rows import OfflineRows, longest_row
from lightrl.training.policy_module import PolicyModule
from lightrl.training.reports.run_ledger import log_evaluation, log_numbers
from lightrl.training.setup.building import check_room
from lightrl.training.steps.fitting_passes import MicroBatchTokens
from lightrl.training.steps.learner import MicroBatchLoss, StepSettings
from lightrl.types import Prompt, ScoredRollout

R = TypeVar("R", bound=OfflineRows)

ENDLESS_EPOCH = 1000
"""Steps in an epoch of a source without an end."""


class OfflineModule(PolicyModule):
    """Learns from given rows. One training step is one optimizer step on `batch_size` rows; an epoch passes over all rows once."""

    batch_size: int
    """Rows per optimizer step over all ranks; a multiple of their number."""

    @abstractmethod
    def learn(self, prompts: list[Prompt]) -> None:
        """Make one optimizer step on these rows of this rank, by `descend`, and report on it."""

    @abstractmethod
    def evaluate_rows(self, prompts: list[Prompt]) -> list[Prompt]:
        """Report on held-out rows, and give the prompts that are to be completed if rewards score completions; every rank calls it."""

    def derived(self, numbers: dict[str, float]) -> dict[str, float]:
        """The reduced numbers of a step or an evaluation, with those that follow from them."""
        return numbers

    def attach(self, policy: Policy) -> None:
        """See `PolicyModule.attach`; ranks must share the batch."""
        ranks = self.learner.adapter.world_size
        if self.batch_size % ranks:
            raise ValueError(f"model.batch_size is {self.batch_size}, which {ranks} ranks cannot share evenly: give a multiple of {ranks}")
        super().attach(policy)

    def steps_per_epoch(self, prompts: int | None) -> int:
        """Steps that pass over all rows once; an endless source has epochs of `ENDLESS_EPOCH` steps."""
        return ENDLESS_EPOCH if prompts is None else math.ceil(prompts / self.batch_size)

    def training_step(self, batch: object, batch_idx: int) -> None:
        """Draw a batch of rows, and make one optimizer step on it."""
        self.learn(self.collector.data.draw(self.batch_size // self.learner.adapter.world_size))
        self.numbers = self.derived(self.ledger.reduce(self.learner.adapter.gather))
        log_numbers(self.trainer, self.numbers, every=getattr(self.trainer, "log_every_n_steps", 1))

    def descend(self, rows: R, loss_of: Callable[[R], MicroBatchLoss]) -> None:
        """Make one optimizer step on rows of this rank, whose losses are logged as `loss`, with statistics."""
        with self.ledger.phase("optimize"):
            self.learner.step_on(rows, loss_of)

    def passes(self, rows: R, dummy: R) -> Iterator[tuple[list[int], R]]:
        """Cut rows into micro-batches for an evaluation, as many on every rank, since all of them take part in each forward pass.

        Returns:
            The numbers of the rows, none for a dummy, which a rank without further rows gets; and the rows themselves on the device.
        """
        cuts = self.learner.fitting.cut(rows.sequences())
        for index in split_to(cuts, self.learner.adapter.largest(len(cuts))):
            yield index.tolist(), (rows.select(index) if len(index) else dummy).to(self.device)

    def validation_step(self, batch: PromptBatch, batch_idx: int) -> dict[str, ScoredRollout] | None:
        """Evaluate one batch of held-out rows, and sampled completions of their prompts if rewards score them."""
        self.ledger.show("evaluating")
        asked = self.evaluate_rows(batch.prompts)
        return None if self.collector.rewards is None else super().validation_step(PromptBatch(asked), batch_idx)

    def on_validation_epoch_end(self) -> None:
        """Log what the evaluation found, with what follows from it, as `val/...`, or `test/...` in a test."""
        log_evaluation(self, self.derived(self.collector.evaluated()))


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
            rewards: how sampled completions of the validation prompts are scored, by name; without these and `evaluation.metrics`
                nothing is sampled.
            engine: who generates the completions of the evaluation.
            environment: answers the policy in the evaluation; by default none does.
            micro_batch_tokens: tokens per forward and backward pass, what rows begin with alike counted once; no influence on the
                gradient. auto: chosen for model and device; null: all at once.
            optimizer: of the policy.
            lr_scheduler: stepped after every optimizer step; null: a constant rate.
            max_grad_norm: gradients are scaled down to this norm; null: never.
            evaluation: how validation and test draw completions.

        Raises:
            ValueError: batch_size below 1, or max_length below 2.
        """
        settings = StepSettings(micro_batch_tokens, optimizer, lr_scheduler, max_grad_norm)
        super().__init__(policy, rewards or {}, engine, environment, evaluation, settings, needs_rewards=not evaluation.metrics)
        self.batch_size, self.max_length = batch_size, max_length
        refuse_outside(type(self), vars(self))

    @abstractmethod
    def longest_sequence(self, prompt: Prompt) -> list[int]:
        """As many ids as the prompt's row needs room for; a ValueError if the row cannot be read."""

    def measure_prompts(self, data: PromptData) -> None:
        """Read every row, so that a bad one is named before the first step, and have the data drop or refuse those that are too long."""
        if data.max_prompt_tokens is not None:
            raise ValueError(
                "data.max_prompt_tokens is about prompts alone, and rows here are prompts with completions: set model.max_length instead"
            )
        check_room(self.policy, self.collector.engine.sampling.max_new_tokens)
        data.measure(self.longest_sequence, longest_row(self.policy, self.max_length))
