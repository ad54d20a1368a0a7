"""An experience from a few numbers, for tests of parts."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lightrl.types import Experience, Outcome, Prompt

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
) -> Experience:
    """Rows with these rewards on their last response token; every row has `PROMPT` tokens before its response.

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
    """
    n = len(rewards)
    response = torch.tensor([3] * n if lengths is None else list(lengths), dtype=torch.long)
    width = PROMPT + (int(response.max()) if n else 0) + padding
    position = torch.arange(width)[None]
    attention = position < PROMPT + response[:, None]
    mask = attention & (position >= PROMPT)
    last = mask & (position == PROMPT + response[:, None] - 1)
    given = torch.tensor(list(rewards), dtype=torch.float32)
    groups = torch.tensor([0] * n if group is None else list(group), dtype=torch.long)
    kept = torch.tensor([True] * n if scorable is None else list(scorable), dtype=torch.bool)
    return Experience(
        prompts=[Prompt(id=f"p{g}", text="ab") for g in groups.tolist()],
        completions=["x" * int(length) for length in response],
        input_ids=torch.ones(n, width, dtype=torch.long),
        attention_mask=attention,
        response_mask=mask,
        rollout_logprobs=torch.zeros(n, width),
        group=groups,
        finish_reason=["stop"] * n if finish_reason is None else list(finish_reason),
        policy_version=torch.zeros(n, dtype=torch.long),
        temperature=1.0,
        reward_parts={"score": given.clone()},
        outcomes={"score": torch.full((n,), int(Outcome.VALUE))},
        scorable=kept,
        token_rewards=torch.where(last, given[:, None], 0.0) if token_rewards is None else token_rewards,
        step_ends=last if step_ends is None else step_ends,
        rewards=given if token_rewards is None else token_rewards.nansum(1),
        token_weight=(mask & kept[:, None]).float(),
        old_logprobs=torch.zeros(n, width),
        advantages=torch.zeros(n, width),
        values=values,
    )
