"""Rows of given data: prompts with their completions as tokens, and the rows that a step learns from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lightrl.policy.policy import Policy
from lightrl.rows import Rows, Sequences
from lightrl.types import Prompt


@dataclass(frozen=True)
class EncodedRows:
    """N rows of prompt, completion and EOS."""

    ids: Tensor
    """`[N, L]` int64, padded on the right."""
    mask: Tensor
    """`[N, L]` bool: the completion and its EOS."""
    lengths: Tensor
    """`[N]` int64: tokens of each row."""


def encode_rows(policy: Policy, prompts: Sequence[Prompt], completions: Sequence[str], max_length: int | None) -> EncodedRows:
    """Rows of tokens, as the policy would have sampled them; a ValueError names a prompt that cannot be encoded or is too long."""
    rows = [policy.encode_completion(prompt, text) for prompt, text in zip(prompts, completions, strict=True)]
    for prompt, row in zip(prompts, rows, strict=True):
        refuse_too_long(policy, prompt, len(row.ids), max_length)
    return EncodedRows(
        ids=padded([row.ids for row in rows], torch.long),
        mask=padded([[False] * row.response + [True] * (len(row.ids) - row.response) for row in rows], torch.bool),
        lengths=torch.tensor([len(row.ids) for row in rows], dtype=torch.long),
    )


def longest_row(policy: Policy, max_length: int | None) -> int | None:
    """The most tokens that a row may have; None: any number."""
    return min((bound for bound in (max_length, policy.max_positions) if bound is not None), default=None)


def refuse_too_long(policy: Policy, prompt: Prompt, tokens: int, max_length: int | None) -> None:
    """Refuse a row that would have to be cut, since a cut completion is not the one that the data are about."""
    bound = longest_row(policy, max_length)
    if bound is not None and tokens > bound:
        raise ValueError(
            f"prompt {prompt.id!r} and its completion take {tokens} tokens, and at most {bound} are taken: raise model.max_length (the "
            f"policy takes {policy.max_positions}), or drop the row"
        )


def padded(rows: Sequence[Sequence[float]], dtype: torch.dtype) -> Tensor:
    """`[N, L]`: N rows of numbers, filled on the right with 0 to the longest."""
    out = torch.zeros(len(rows), max(map(len, rows), default=0), dtype=dtype)
    for i, row in enumerate(rows):
        out[i, : len(row)] = torch.tensor(row, dtype=dtype)
    return out


@dataclass(kw_only=True)
class OfflineRows(Rows):
    """Rows that are cut into micro-batches by their lengths."""

    lengths: Tensor
    """`[N]` int64: tokens of each row; of the longest, where a row holds several sequences."""

    def __len__(self) -> int:
        return len(self.lengths)


@dataclass(kw_only=True)
class PromptRows(OfflineRows):
    """Rows that answer one prompt each."""

    prompts: list[Prompt]
    """N prompts, one per row; their columns may say more, such as a margin."""
    place: Tensor
    """`[N]` int64: the number of each row among those that its rank has in the step."""


@dataclass(kw_only=True)
class SingleRows(OfflineRows):
    """Rows of one sequence each."""

    input_ids: Tensor
    """`[N, L]` int64, padded on the right."""

    def sequences(self) -> Sequences:
        """One for each row."""
        return Sequences(self.input_ids, self.lengths, torch.arange(len(self)))
