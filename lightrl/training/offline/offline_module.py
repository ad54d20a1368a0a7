"""Training on given rows: steps, epochs, and the evaluation on held-out rows."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import TypeVar

from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable

from lightrl.data.loaders import PromptBatch
from lightrl.ops.batching import split_to
from lightrl.parts.engine import RolloutEngine
from lightrl.parts.environment import Environment
from lightrl.parts.reward import Reward
from lightrl.policy.policy import Policy
from lightrl.policy.source import PolicySource
from lightrl.ranges import BatchSize, Positive, refuse_outside
from lightrl.training.evaluating.held_out import Evaluation
from lightrl.training.offline.offline_rows import OfflineRows
from lightrl.training.policy_module import PolicyModule
from lightrl.training.reports.logged_numbers import as_tensors
from lightrl.training.steps.learner import MicroBatchLoss
from lightrl.training.steps.token_budget import MicroBatchTokens
from lightrl.types import Prompt

R = TypeVar("R", bound=OfflineRows)

ENDLESS_EPOCH = 1000
"""Steps in an epoch of a source without an end."""


class OfflineModule(PolicyModule):
    """Learns from given rows. One training step is one optimizer step on `batch_size` rows; an epoch passes over all rows once."""

    def __init__(
        self,
        policy: PolicySource,
        batch_size: BatchSize,
        rewards: dict[str, Reward],
        engine: RolloutEngine,
        environment: Environment,
        micro_batch_tokens: MicroBatchTokens,
        optimizer: OptimizerCallable,
        lr_scheduler: LRSchedulerCallable | None,
        max_grad_norm: Positive | None,
        evaluation: Evaluation,
    ) -> None:
        """
        Args:
            policy: which policy is trained.
            batch_size: rows per optimizer step over all ranks; a multiple of their number.
            rewards: how sampled completions of the validation prompts are scored, by name; none: nothing is sampled.
            engine: who generates completions.
            environment: answers the policy.
            micro_batch_tokens: tokens per forward and backward pass, what rows begin with alike counted once; auto: chosen for model and
                device; None: all at once.
            optimizer: of all trainable parameters.
            lr_scheduler: stepped after every optimizer step; None: a constant rate.
            max_grad_norm: gradients are scaled down to this norm; None: never.
            evaluation: how validation and test draw completions.

        Raises:
            ValueError: batch_size below 1.
        """
        super().__init__(policy, rewards, engine, environment, micro_batch_tokens, optimizer, lr_scheduler, max_grad_norm, evaluation)
        self.batch_size = batch_size
        refuse_outside(type(self), vars(self))

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
        self.log_dict(as_tensors(self.numbers), on_step=True, on_epoch=False, batch_size=1)

    def descend(self, rows: R, loss_of: Callable[[R], MicroBatchLoss]) -> None:
        """Make one optimizer step on rows.

        Args:
            rows: of this rank.
            loss_of: the share of a micro-batch in the sum over the step and all ranks, logged as `loss`, with statistics.
        """
        with self.ledger.phase("optimize"):
            self.learner.step_on(rows, loss_of)

    def passes(self, rows: R, dummy: R) -> Iterator[tuple[list[int], R]]:
        """Cut rows into micro-batches for an evaluation, as many on every rank, since all of them take part in each forward pass.

        Args:
            rows: of this rank; may be none.
            dummy: a row for a rank that has none left.

        Returns:
            The numbers of the rows, none for a dummy, and the rows themselves on the device.
        """
        cuts = self.learner.fitting.cut(rows.sequences())
        for index in split_to(cuts, self.learner.adapter.largest(len(cuts))):
            yield index.tolist(), (rows.select(index) if len(index) else dummy).to(self.device)

    def validation_step(self, batch: PromptBatch, batch_idx: int) -> None:
        """Evaluate one batch of held-out rows, and sampled completions of their prompts if rewards score them."""
        asked = self._evaluated(batch.prompts)
        if self.collector.rewards is not None:
            super().validation_step(PromptBatch(asked), batch_idx)

    def test_step(self, batch: PromptBatch, batch_idx: int) -> None:
        """Evaluate one batch of test rows, and sampled completions of their prompts if rewards score them."""
        asked = self._evaluated(batch.prompts)
        if self.collector.rewards is not None:
            super().test_step(PromptBatch(asked), batch_idx)

    def _evaluated(self, prompts: list[Prompt]) -> list[Prompt]:
        self.ledger.show("evaluating")
        return self.evaluate_rows(prompts)

    def on_validation_epoch_end(self) -> None:
        """Log what the evaluation found, with what follows from it, as `val/...`, or `test/...` in a test."""
        stage = "test" if self.trainer.testing else "val"
        numbers = self.derived(self.collector.held_out.reduce(self.learner.adapter.gather))
        self.log_dict({f"{stage}/{name}": value for name, value in numbers.items()}, batch_size=1)
