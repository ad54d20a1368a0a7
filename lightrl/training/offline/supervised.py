"""Supervised fine-tuning: the policy imitates the answers of the data set."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from lightrl.data.loaders import PromptBatch
from lightrl.data.prompt_data import PromptData
from lightrl.parts.aggregation import TokenMean
from lightrl.policy.source import PolicySource
from lightrl.training.offline.examples import ExampleReader, Examples, asked
from lightrl.training.offline.offline_policy_module import OfflinePolicyModule
from lightrl.training.steps.learner import MicroBatchLoss, local_denominators
from lightrl.types import JSON, Denominators, Prompt


class SupervisedFineTuning(OfflinePolicyModule):
    """Minimises -log pi(answer | prompt), every answer token weighing the same.

    loss = -(1 / sum w) sum over rows and tokens of w_t log pi(o_t | o_<t), with the sum of weights over the whole optimizer step and all
    ranks; w is 1 on the tokens of answers and on the EOS that ends them, 0 elsewhere. One training step is one optimizer step; an epoch
    passes over all rows once.

    A row is a prompt with an answer, or a conversation that ends with the assistant's message, in which every message of the assistant is
    an answer unless it has `train: false` or a `weight` of its own.
    """

    def __init__(self, policy: PolicySource, learn_from: Literal["answers", "everything"] = "answers", **kwargs: Any) -> None:
        """
        Args:
            policy: which policy is trained.
            learn_from: the answers, or everything: then prompts and other roles weigh 1 too, and plain texts without an answer are rows.
            **kwargs: the arguments of `OfflinePolicyModule`.
        """
        super().__init__(policy, **kwargs)
        self.learn_from = learn_from

    @property
    def reader(self) -> ExampleReader:
        """Makes rows of tokens, once the policy is there."""
        return ExampleReader(self.policy, self.learn_from == "everything", self.max_length)

    def measure_prompts(self, data: PromptData) -> None:
        """Read every row, and refuse training rows without an answer."""
        super().measure_prompts(data)
        if self.trainer.state.fn == "fit":
            for prompt in data.training_prompts():
                self.reader.refuse_empty(prompt)

    def longest_sequence(self, prompt: Prompt) -> list[int]:
        """The ids of the row; a held-out prompt that is only sampled needs room for one more."""
        return self.reader.read(prompt)[0] if self.reader.shows(prompt) else [*self.policy.encode(prompt), 0]

    def learn(self, prompts: list[Prompt]) -> None:
        """Make one optimizer step on the examples of these prompts."""
        examples = self.reader.encode(prompts)
        group = torch.arange(len(examples))
        counts = Denominators(*self.learner.adapter.total(local_denominators(examples.token_weight, group)).tolist())

        def loss_of(micro: Examples) -> MicroBatchLoss:
            mask = micro.token_weight > 0
            weights = TokenMean().weights(micro.token_weight, group, counts)
            loss = -(torch.where(mask, self._logprobs(micro), 0.0) * weights).sum()
            return MicroBatchLoss(loss, {"loss": loss.detach()})

        self.descend(examples, loss_of)
        self.ledger.add("tokens", counts.tokens)

    def evaluate_rows(self, prompts: list[Prompt]) -> list[Prompt]:
        """Report the loss on the prompts that show an answer; all can be completed, of a conversation the last message."""
        examples = self.reader.encode([prompt for prompt in prompts if self.reader.shows(prompt)])
        for rows, micro in self.passes(examples, Examples.dummy()):
            mask = micro.token_weight > 0
            logprobs = self._logprobs(micro)
            if rows:
                # in shares of a weight, so that it is the loss of training
                self.collector.held_out.add("loss/total", -(logprobs[mask] * micro.token_weight[mask]).double().sum(), reduce="sum")
                self.collector.held_out.add("loss/weight", micro.token_weight.double().sum(), reduce="sum")
        return [asked(prompt) for prompt in prompts]

    def predict_step(self, batch: PromptBatch, batch_idx: int) -> list[dict[str, JSON]]:
        """Complete one batch of prompts; of a conversation the last message is what is asked for."""
        return super().predict_step(PromptBatch([asked(prompt) for prompt in batch.prompts]), batch_idx)

    def derived(self, numbers: dict[str, float]) -> dict[str, float]:
        """The numbers with the loss of an evaluation."""
        if "loss/weight" in numbers:
            numbers["loss"] = numbers.pop("loss/total") / numbers.pop("loss/weight")
        return numbers

    def _logprobs(self, micro: Examples) -> Tensor:
        logprobs: Tensor = self.policy(micro.host.input_ids, micro.host.token_weight > 0).logprobs
        return logprobs
