"""Supervised fine-tuning: the policy imitates the answers of the data set."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Literal

import torch
from jsonargparse import lazy_instance
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor

from lightrl.data.loaders import PromptBatch
from lightrl.ops.batching import micro_batches, packed_batches, split_to
from lightrl.parts.aggregation import TokenMean
from lightrl.parts.engine import RolloutEngine
from lightrl.parts.reward import Reward
from lightrl.policy.source import PolicySource
from lightrl.rollout.transformers_engine import TransformersEngine
from lightrl.training.denominators import local_denominators
from lightrl.training.evaluation import Evaluation
from lightrl.training.offline.examples import ExampleReader, Examples, asked
from lightrl.training.offline.packing import packed_logprobs, refuse_leaking
from lightrl.training.optimizer_step import MicroBatchLoss
from lightrl.training.policy_module import PolicyModule
from lightrl.types import Denominators, Prompt, ScoredRollout


class SupervisedFineTuning(PolicyModule):
    """Minimises -log pi(answer | prompt), every answer token weighing the same.

    loss = -(1 / sum w) sum over rows and tokens of w_t log pi(o_t | o_<t), with the sum of weights over the whole optimizer step and all
    ranks; w is 1 on the tokens of answers and on the EOS that ends them, 0 elsewhere. One training step is one optimizer step; an epoch
    passes over all rows once.

    A row is a prompt with an answer, or a conversation that ends with the assistant's message, in which every message of the assistant is
    an answer unless it has `train: false` or a `weight` of its own.
    """

    def __init__(
        self,
        policy: PolicySource,
        batch_size: int = 64,
        learn_from: Literal["answers", "everything"] = "answers",
        packing: bool = False,
        max_length: int | None = None,
        rewards: dict[str, Reward] | None = None,
        engine: RolloutEngine = lazy_instance(TransformersEngine),
        micro_batch_tokens: int | None = 8192,
        optimizer: OptimizerCallable = partial(torch.optim.AdamW, lr=1e-5, weight_decay=0.0),
        lr_scheduler: LRSchedulerCallable | None = None,
        max_grad_norm: float | None = 1.0,
        evaluation: Evaluation = Evaluation(before_training=False),
    ) -> None:
        """
        Args:
            policy: which policy is trained.
            batch_size: examples per optimizer step over all ranks; a multiple of their number.
            learn_from: the answers, or everything: then prompts and other roles weigh 1 too, and plain texts without an answer are rows.
            packing: the examples of a micro-batch stand one behind the other in a row without padding, and none sees another; no
                influence on the gradient.
            max_length: rows with more tokens are dropped, or refused as `data.too_long` says; null: as many as the policy takes.
            rewards: how sampled completions of the validation prompts are scored, by name; none: nothing is sampled.
            engine: who generates the completions of the evaluation.
            micro_batch_tokens: tokens per forward and backward pass, padding included; no influence on the gradient. null: all at once.
            optimizer: of the policy.
            lr_scheduler: stepped after every optimizer step; null: a constant rate.
            max_grad_norm: gradients are scaled down to this norm; null: never.
            evaluation: how validation and test draw completions.

        Raises:
            ValueError: batch_size below 1, or max_length below 2.
        """
        super().__init__(policy, rewards or {}, engine, micro_batch_tokens, optimizer, lr_scheduler, max_grad_norm, evaluation)
        if batch_size < 1 or (max_length is not None and max_length < 2):
            raise ValueError(
                f"model.batch_size must be 1 or more and model.max_length 2 or more, or null; got {batch_size} and {max_length}"
            )
        self.batch_size, self.learn_from, self.packing, self.max_length = batch_size, learn_from, packing, max_length

    @property
    def reader(self) -> ExampleReader:
        """Makes rows of tokens, once the policy is there."""
        return ExampleReader(self.policy, self.learn_from == "everything", self.max_length)

    def training_step(self, batch: Any, batch_idx: int) -> None:
        """Draw a batch of examples, and make one optimizer step on it."""
        data: Any = self.trainer.datamodule  # type: ignore[attr-defined]
        examples = self.reader.encode(data.draw(self.batch_size // self.adapter.world_size))
        group = torch.arange(len(examples))
        counts = Denominators(*self.adapter.total(local_denominators(examples.token_weight, group)).tolist())

        def loss_of(micro: Examples) -> MicroBatchLoss:
            mask = micro.token_weight > 0
            weights = TokenMean().weights(micro.token_weight, group, counts)
            loss = -(torch.where(mask, self._logprobs(micro, mask), 0.0) * weights).sum()
            return MicroBatchLoss(loss, {"loss": float(loss.detach())})

        with self.phase("optimize"):
            self.step_on(examples, examples.lengths, loss_of, cut=self._cut)
        self.ledger.add("tokens", counts.tokens)
        self.log_dict(self.reduced_ledger(), on_step=True, on_epoch=False, batch_size=1)

    def steps_per_epoch(self, prompts: int | None) -> int:
        """Steps that pass over all rows once; an endless source has epochs of 1000 steps."""
        return 1000 if prompts is None else math.ceil(prompts / self.batch_size)

    def build_models(self) -> None:
        """Build the policy, and look whether the sizes fit the ranks and whether the model can keep packed texts apart."""
        super().build_models()
        if self.batch_size % self.trainer.world_size:
            raise ValueError(f"model.batch_size is {self.batch_size}, which {self.trainer.world_size} ranks cannot share evenly")
        if self.packing:
            refuse_leaking(self.policy)

    def measure_prompts(self, data: Any) -> None:
        """Read every row, so that a bad one is named before the first step, and have the data drop or refuse those that are too long."""
        if getattr(data, "max_prompt_tokens", None) is not None:
            raise ValueError("data.max_prompt_tokens is about prompts alone, and rows here have answers: set model.max_length instead")
        positions = self.policy.max_positions
        data.measure(self._row, min((b for b in (self.max_length, positions) if b is not None), default=None))
        if self.trainer.state.fn == "fit":
            for prompt in data.training_prompts():
                self.reader.refuse_empty(prompt)

    def evaluation_step(self, prompts: list[Prompt]) -> ScoredRollout:
        """Complete and score held-out prompts; of a conversation the last message is what is asked for."""
        return super().evaluation_step([asked(prompt) for prompt in prompts])

    def validation_step(self, batch: PromptBatch, batch_idx: int) -> None:
        """The loss on one batch of held-out rows, and sampled completions of their prompts if rewards score them."""
        self._judge(batch.prompts)
        if self.rewards is not None:
            super().validation_step(batch, batch_idx)

    def test_step(self, batch: PromptBatch, batch_idx: int) -> None:
        """The loss on one batch of test rows, and sampled completions of their prompts if rewards score them."""
        self._judge(batch.prompts)
        if self.rewards is not None:
            super().test_step(batch, batch_idx)

    def _judge(self, prompts: list[Prompt]) -> None:
        examples = self.reader.encode([prompt for prompt in prompts if self.reader.shows(prompt)])
        cuts = self._cut(examples.lengths, self.micro_batch_tokens)
        for rows in split_to(cuts, self.adapter.largest(len(cuts))):
            # every rank makes as many passes: one without rows left looks at an answer that nobody asks for
            micro = (examples.select(rows) if len(rows) else Examples.nothing()).to(self.device)
            mask = micro.token_weight > 0
            logprobs = self._logprobs(micro, mask)
            if len(rows):
                # in shares of a weight, so that it is the loss of training
                self._evaluation_ledger.add("loss/total", -(logprobs[mask] * micro.token_weight[mask]).double().sum(), reduce="sum")
                self._evaluation_ledger.add("loss/weight", micro.token_weight.double().sum(), reduce="sum")

    def _log_evaluation(self, stage: str) -> None:
        numbers = self._evaluation_ledger.reduce(self.adapter.gather)
        if "loss/weight" in numbers:
            numbers["loss"] = numbers.pop("loss/total") / numbers.pop("loss/weight")
        self.log_dict({f"{stage}/{name}": value for name, value in numbers.items()}, batch_size=1)

    def _logprobs(self, micro: Examples, mask: Tensor) -> Tensor:
        if self.packing:
            return packed_logprobs(self.policy, micro.input_ids, mask, micro.lengths)
        logprobs: Tensor = self.policy(micro.input_ids, mask).logprobs
        return logprobs

    def _cut(self, lengths: Tensor, budget: int | None) -> list[Tensor]:
        return packed_batches(lengths, budget) if self.packing else micro_batches(lengths, budget)

    def _row(self, prompt: Prompt) -> list[int]:
        """As many ids as the row needs room for; a held-out prompt that is only sampled needs room for one more."""
        return self.reader.read(prompt)[0] if self.reader.shows(prompt) else [*self.policy.encode(prompt), 0]
