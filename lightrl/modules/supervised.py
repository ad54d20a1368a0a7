"""Supervised fine-tuning: the policy imitates the answers of the data set."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from jsonargparse import lazy_instance
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor

from lightrl.modules.evaluation import Evaluation
from lightrl.modules.loss import counts_of
from lightrl.modules.policy_module import PolicyModule
from lightrl.parts.aggregation import TokenMean
from lightrl.parts.engine import RolloutEngine
from lightrl.parts.reward import Reward
from lightrl.policy.policy import Policy
from lightrl.policy.source import PolicySource
from lightrl.rollout.transformers_engine import TransformersEngine
from lightrl.types import Counts, Prompt, Rows


@dataclass(kw_only=True)
class Examples(Rows):
    """Prompts with the answers to be imitated."""

    input_ids: Tensor
    """`[N, L]` int64, prompt, answer and EOS, padded on the right."""
    token_weight: Tensor
    """`[N, L]` f32: 1 on answer and EOS, 0 elsewhere."""
    lengths: Tensor
    """`[N]` int64, tokens of each row."""

    def __len__(self) -> int:
        return len(self.lengths)


class SupervisedFineTuning(PolicyModule):
    """Minimises -log pi(answer | prompt), every answer token weighing the same.

    loss = -(1 / N_tok) sum over rows and answer tokens (EOS included) of log pi(o_t | prompt, o_<t), N_tok over the whole
    optimizer step and all ranks. One training step is one optimizer step; an epoch passes over all prompts once.
    """

    def __init__(
        self,
        policy: PolicySource,
        batch_size: int = 64,
        rewards: dict[str, Reward] | None = None,
        engine: RolloutEngine = lazy_instance(TransformersEngine),
        micro_batch_tokens: int | None = 8192,
        optimizer: OptimizerCallable = lambda p: torch.optim.AdamW(p, lr=1e-5, weight_decay=0.0),
        lr_scheduler: LRSchedulerCallable | None = None,
        max_grad_norm: float | None = 1.0,
        evaluation: Evaluation = Evaluation(before_training=False),
    ) -> None:
        """
        Args:
            policy: which policy is trained.
            batch_size: examples per optimizer step over all ranks; at least 1.
            rewards: how sampled completions of the validation prompts are scored, by name; none: nothing is sampled.
            engine: who generates the completions of the evaluation.
            micro_batch_tokens: padded tokens per forward and backward pass; no influence on the gradient. null: all at once.
            optimizer: of the policy.
            lr_scheduler: stepped after every optimizer step; null: a constant rate.
            max_grad_norm: gradients are scaled down to this norm; null: never.
            evaluation: how validation and test draw completions.

        Raises:
            ValueError: batch_size below 1.
        """
        super().__init__(policy, rewards or {}, engine, micro_batch_tokens, optimizer, lr_scheduler, max_grad_norm, evaluation)
        if batch_size < 1:
            raise ValueError(f"model.batch_size must be 1 or more, got {batch_size}")
        self.batch_size = batch_size

    def training_step(self, batch: Any, batch_idx: int) -> None:
        """Draw a batch of prompts with answers, and make one optimizer step on it."""
        data: Any = self.trainer.datamodule  # type: ignore[attr-defined]
        examples = encode_examples(self.policy, data.draw(self.batch_size // self.adapter.world_size))
        group = torch.arange(len(examples))
        counts = Counts(*self.adapter.total(counts_of(examples.token_weight, group)).tolist())
        losses: list[float] = []

        def loss_of(micro: Examples) -> Tensor:
            mask = micro.token_weight > 0
            logprobs = self.policy(micro.input_ids, mask).logprobs
            weights = TokenMean().weights(micro.token_weight, group, counts)
            loss = -(torch.where(mask, logprobs, 0.0) * weights).sum()
            losses.append(float(loss.detach()))
            return loss

        self.on_phase("optimizing")
        self.step_on(examples, examples.lengths, loss_of)
        self.ledger.add("loss", sum(losses) * self.adapter.world_size)
        self.ledger.add("tokens", counts.tokens)
        self.log_dict(self.ledger.reduce(self.adapter.gather), on_step=True, on_epoch=False, batch_size=1)

    def steps_per_epoch(self, prompts: int | None) -> int:
        """Steps that pass over all prompts once; an endless source has epochs of 1000 steps."""
        return 1000 if prompts is None else math.ceil(prompts / self.batch_size)


def encode_examples(policy: Policy, prompts: list[Prompt]) -> Examples:
    """Rows of prompt, answer and EOS.

    Raises:
        ValueError: a prompt has no answer, or a row is longer than the policy takes; the message names the prompt.
    """
    eos = policy.tokenizer.eos_token_id if policy.tokenizer.eos_token_id is not None else min(policy.eos_token_ids)
    rows, starts = [], []
    for prompt in prompts:
        if prompt.answer is None:
            raise ValueError(f"prompt {prompt.id!r} has no answer to imitate: set the source's answer field, or drop the prompt")
        question = policy.encode(prompt)
        answer = policy.tokenizer.encode(str(prompt.answer), add_special_tokens=False)
        rows.append([*question, *answer, eos])
        starts.append(len(question))
        if policy.max_positions is not None and len(rows[-1]) > policy.max_positions:
            raise ValueError(
                f"prompt {prompt.id!r} and its answer take {len(rows[-1])} tokens, and the policy takes {policy.max_positions}: "
                "set data.max_prompt_tokens, or drop the row"
            )
    lengths = torch.tensor([len(row) for row in rows])
    input_ids = torch.zeros(len(rows), int(lengths.max()), dtype=torch.long)
    for i, row in enumerate(rows):
        input_ids[i, : len(row)] = torch.tensor(row)
    positions = torch.arange(input_ids.shape[1])
    answered = (positions >= torch.tensor(starts)[:, None]) & (positions < lengths[:, None])
    return Examples(input_ids=input_ids, token_weight=answered.float(), lengths=lengths)
