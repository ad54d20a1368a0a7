"""Supervised fine-tuning: the policy imitates the answers of the data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from lightrl.data.loaders import PromptBatch
from lightrl.data.prompt_data import PromptData
from lightrl.parts.aggregation import TokenMean
from lightrl.policy.policy import Policy
from lightrl.policy.source import PolicySource
from lightrl.text.turns import TURN_WEIGHTS, tokenize_turns
from lightrl.training.offline.encoded_rows import SingleRows, padded, refuse_too_long
from lightrl.training.offline.offline_module import OfflinePolicyModule
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


@dataclass(kw_only=True)
class Examples(SingleRows):
    """Texts to be imitated."""

    token_weight: Tensor
    """`[N, L]` f32: the weight of a token in the loss; 0 on tokens that are not imitated, on padding and on the first token of a row."""

    @classmethod
    def dummy(cls) -> Examples:
        """A row that weighs nothing, for a rank that has none of its own."""
        return cls(input_ids=torch.zeros(1, 1, dtype=torch.long), token_weight=torch.zeros(1, 1), lengths=torch.ones(1, dtype=torch.long))


@dataclass(frozen=True)
class ExampleReader:
    """Makes a row of tokens and weights from a prompt with an answer, a whole conversation, or a plain text.

    An answer and its EOS weigh 1. In a conversation that ends with the assistant's message, each message of the assistant weighs 1, or
    as much as its own `train` or `weight` says. All other tokens weigh 0, or 1 where everything is learnt from; then a text without an
    answer is an example too.
    """

    policy: Policy
    """Whose tokenizer and chat template are used."""
    everything: bool = False
    """Prompts are learnt from as well."""
    max_length: int | None = None
    """Most tokens of a row; None: as many as the policy takes."""

    def shows(self, prompt: Prompt) -> bool:
        """Whether the prompt has something to imitate."""
        return is_conversation(prompt) or prompt.answer is not None or (self.everything and prompt.text is not None)

    def refuse_empty(self, prompt: Prompt) -> None:
        """Refuse a prompt without anything to imitate."""
        if not self.shows(prompt):
            raise ValueError(
                f"prompt {prompt.id!r} has no answer to imitate: set the source's answer field, give whole conversations that end with the "
                "assistant's message, or drop the prompt"
            )

    def read(self, prompt: Prompt) -> tuple[list[int], list[float]]:
        """Ids and weights of one row, of any length."""
        self.refuse_empty(prompt)
        if is_conversation(prompt):
            ids, weights = self._conversation(prompt)
        else:
            row = self.policy.encode_completion(prompt, "" if prompt.answer is None else str(prompt.answer))
            ids, weights = row.ids, [float(self.everything)] * row.response + [1.0] * (len(row.ids) - row.response)
        if not any(weights[1:]):
            raise ValueError(f"prompt {prompt.id!r} has no token with a weight, so there is nothing to imitate: drop the row")
        return ids, [0.0, *weights[1:]]

    def encode(self, prompts: Sequence[Prompt]) -> Examples:
        """Rows of these prompts."""
        rows = [self.read(prompt) for prompt in prompts]
        for prompt, (ids, _) in zip(prompts, rows, strict=True):
            refuse_too_long(self.policy, prompt, len(ids), self.max_length)
        return Examples(
            input_ids=padded([ids for ids, _ in rows], torch.long),
            token_weight=padded([weights for _, weights in rows], torch.float32),
            lengths=torch.tensor([len(ids) for ids, _ in rows], dtype=torch.long),
        )

    def _conversation(self, prompt: Prompt) -> tuple[list[int], list[float]]:
        messages = prompt.messages or ()
        given = prompt.meta.get(TURN_WEIGHTS) or [None] * len(messages)
        own = {i: 1.0 if given[i] is None else given[i] for i, message in enumerate(messages) if message["role"] == "assistant"}
        # a message that weighs as much as the tokens around it need not be found
        wanted = [i for i, weight in own.items() if weight != float(self.everything)]
        try:
            turns = tokenize_turns(self.policy.tokenizer, messages, wanted, self.policy.eos_token_ids, self.policy.eos_token_id)
        except ValueError as error:
            raise ValueError(f"prompt {prompt.id!r}: {error}") from error
        weights = [float(self.everything)] * len(turns.ids)
        for turn, places in turns.written.items():
            weights[places.start : places.stop] = [own[turn]] * len(places)
        return turns.ids, weights


def is_conversation(prompt: Prompt) -> bool:
    """Whether the prompt holds its answer, as the assistant's last message; a ValueError if it has an answer beside it."""
    if prompt.messages is None or prompt.messages[-1]["role"] != "assistant":
        return False
    if prompt.answer is not None:
        raise ValueError(
            f"prompt {prompt.id!r} ends with the assistant's message and has an answer beside it, so nothing says which is to be imitated: "
            "set the source's answer to null, or the column to `columns`"
        )
    return True


def asked(prompt: Prompt) -> Prompt:
    """The prompt to be answered: a conversation without its last message, which is the answer; any other prompt as it is."""
    if not is_conversation(prompt) or prompt.messages is None:
        return prompt
    last = prompt.messages[-1]
    return replace(prompt, messages=prompt.messages[:-1], answer=last.get("tool_calls") or last["content"], meta={})
