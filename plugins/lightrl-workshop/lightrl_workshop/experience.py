"""An experience from a few numbers, for tests of parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields

import torch
from torch import Tensor

from lightrl.types import Outcome, Prompt, ScoredRollout, TrainingBatch

PROMPT = 2
"""Prompt tokens of every row, before its response."""


def experience(
    rewards: Sequence[float],
    lengths: Sequence[int] | None = None,
    group: Sequence[int] | None = None,
    scorable: Sequence[bool] | None = None,
    finish_reason: Sequence[str] | None = None,
    token_rewards: Tensor | None = None,
    step_ends: Tensor | None = None,
    values: Tensor | None = None,
    padding: int = 0,
    old_logprobs: Tensor | None = None,
    ref_logprobs: Tensor | None = None,
    advantages: Tensor | None = None,
    gaps: Sequence[Sequence[int]] | None = None,
    extras: Mapping[str, Tensor] | None = None,
    ids: Tensor | None = None,
    prompts: Sequence[Prompt] | None = None,
) -> TrainingBatch:
    """Rows with these rewards on their last response token; every row has `PROMPT` tokens before its response.

    L is two prompt tokens, the longest response and the padding, so that tensors of one's own have a column for each of these.

    Args:
        rewards: N numbers.
        lengths: N response lengths in tokens; None: 3 each.
        group: N group numbers; None: all rows are one group.
        scorable: N bools; None: all are.
        finish_reason: N reasons; None: all `stop`.
        token_rewards: `[N, L]` in place of the rewards on the last response tokens.
        step_ends: `[N, L]` bool; None: the last response token of each row.
        values: `[N, L]` from a critic, or None.
        padding: further positions on the right that hold no token.
        old_logprobs: `[N, L]` nats, under the policy that sampled, and so the engine's too; None: 0.
        ref_logprobs: `[N, L]` nats under the reference, or None.
        advantages: `[N, L]`; None: 0.
        gaps: for each row the numbers of the response's tokens, from 0, that the policy read between its turns and did not sample.
        extras: `[N]`, `[N, L]` or `[N, L, ...]` by name, as the environment or a part before leaves them.
        ids: `[N, L]` int64 tokens; None: 1 everywhere.
        prompts: N of them; None: one per group.

    Raises:
        ValueError: a tensor is not `[N, L]`, or what is given for each row is not of N rows; the message says which and what L is.
    """
    n = len(rewards)
    response = torch.tensor([3] * n if lengths is None else list(lengths), dtype=torch.long)
    width = PROMPT + (int(response.max()) if n else 0) + padding
    _refuse_other_shapes(
        n, width, padding, token_rewards=token_rewards, step_ends=step_ends, values=values, old_logprobs=old_logprobs,
        ref_logprobs=ref_logprobs, advantages=advantages, ids=ids,
    )  # fmt: skip
    for name, given in {"gaps": gaps, "prompts": prompts, **(extras or {})}.items():
        if given is not None and len(given) != n:
            raise ValueError(f"{name} must be of {n} rows, got {len(given)}")
    position = torch.arange(width)[None]
    attention = position < PROMPT + response[:, None]
    mask = attention & (position >= PROMPT)
    for row, read in enumerate(gaps or ()):
        mask[row, [PROMPT + number for number in read]] = False
    last = mask & (position == PROMPT + response[:, None] - 1)
    given = torch.tensor(list(rewards), dtype=torch.float32)
    groups = torch.tensor([0] * n if group is None else list(group), dtype=torch.long)
    kept = torch.tensor([True] * n if scorable is None else list(scorable), dtype=torch.bool)
    return TrainingBatch(
        prompts=[Prompt(id=f"p{g}", text="ab") for g in groups.tolist()] if prompts is None else list(prompts),
        completions=["x" * int(length) for length in response],
        input_ids=torch.ones(n, width, dtype=torch.long) if ids is None else ids,
        attention_mask=attention,
        response_mask=mask,
        rollout_logprobs=torch.zeros(n, width) if old_logprobs is None else old_logprobs.clone(),
        group=groups,
        finish_reason=["stop"] * n if finish_reason is None else list(finish_reason),
        policy_version=torch.zeros(n, dtype=torch.long),
        temperature=1.0,
        seeds=1000003 * torch.arange(1, n + 1),
        reward_parts={"score": given.clone()},
        outcomes={"score": torch.full((n,), int(Outcome.VALUE))},
        scorable=kept,
        token_rewards=torch.where(last, given[:, None], 0.0) if token_rewards is None else token_rewards,
        step_ends=last if step_ends is None else step_ends,
        rewards=given if token_rewards is None else token_rewards.nansum(1),
        token_weight=(mask & kept[:, None]).float(),
        old_logprobs=torch.zeros(n, width) if old_logprobs is None else old_logprobs,
        advantages=torch.zeros(n, width) if advantages is None else advantages,
        ref_logprobs=ref_logprobs,
        values=values,
        extras=dict(extras or {}),
    )


def learnt_from(scored: ScoredRollout) -> TrainingBatch:
    """Scored rows as `Sampler.commit` gets them: the sum of their raw rewards stands on the last token, and the advantages are 0."""
    mask = scored.response_mask
    last = mask & (mask.long().cumsum(1) == mask.long().sum(1, keepdim=True))
    rewards = torch.stack([part if part.dim() == 1 else part.nansum(1) for part in scored.reward_parts.values()]).nansum(0)
    return TrainingBatch(
        **{f.name: getattr(scored, f.name) for f in fields(ScoredRollout)},
        token_rewards=torch.where(last, rewards[:, None], 0.0),
        step_ends=last,
        rewards=rewards,
        token_weight=(mask & scored.scorable[:, None]).float(),
        old_logprobs=scored.rollout_logprobs.clone(),
        advantages=torch.zeros_like(scored.rollout_logprobs),
    )


def _refuse_other_shapes(n: int, width: int, padding: int, **tensors: Tensor | None) -> None:
    for name, tensor in tensors.items():
        if tensor is not None and list(tensor.shape) != [n, width]:
            raise ValueError(
                f"{name} must have shape [{n}, {width}], {n} rows of {PROMPT} prompt tokens, {width - PROMPT - padding} of the longest "
                f"response and {padding} of padding; got {list(tensor.shape)}"
            )
