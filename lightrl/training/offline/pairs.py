"""Two completions of one prompt side by side, encoded as the policy reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lightrl.policy.policy import Policy
from lightrl.training.offline.preference_columns import paired_texts
from lightrl.types import Prompt, Rows


@dataclass(kw_only=True)
class Pairs(Rows):
    """A better and a worse completion of each prompt, L being the longest of all rows."""

    prompts: list[Prompt]
    """N prompts, one per pair; their columns may say more, such as a margin."""
    chosen_ids: Tensor
    """`[N, L]` int64: prompt, better completion and EOS, padded on the right."""
    chosen_mask: Tensor
    """`[N, L]` bool: the completion and its EOS."""
    rejected_ids: Tensor
    """`[N, L]` int64: prompt, worse completion and EOS, padded on the right."""
    rejected_mask: Tensor
    """`[N, L]` bool: the completion and its EOS."""
    lengths: Tensor
    """`[N]` int64: tokens of the longer of the two rows."""
    chosen_reference: Tensor | None = None
    """`[N]` log-probs of the better completions under a reference, where one is needed."""
    rejected_reference: Tensor | None = None
    """`[N]` log-probs of the worse completions under it."""

    def __len__(self) -> int:
        return len(self.lengths)

    def stacked(self) -> tuple[Tensor, Tensor]:
        """Ids and masks `[2 N, L]`, all chosen rows before all rejected ones, so that one forward pass sees both."""
        return torch.cat([self.chosen_ids, self.rejected_ids]), torch.cat([self.chosen_mask, self.rejected_mask])


def encode_pairs(
    policy: Policy, prompts: Sequence[Prompt], chosen: str = "chosen", rejected: str = "rejected", max_length: int | None = None
) -> Pairs:
    """Rows of prompt, completion and EOS for both completions of every prompt.

    Args:
        policy: whose tokenizer and chat template are used.
        prompts: whose columns hold the completions.
        chosen: the column with the better one.
        rejected: the column with the worse one.
        max_length: most tokens of a row; None: as many as the policy takes.

    Raises:
        ValueError: a prompt has no two different completions, or one of its rows is too long; the message names it.
    """
    asked, rows, starts = [], [], []
    for prompt in prompts:
        question, *texts = paired_texts(prompt, chosen, rejected)
        asked.append(question)
        for text in texts:
            row, start = encode_completion(policy, question, text)
            refuse_too_long(policy, question, len(row), max_length)
            rows.append(row)
            starts.append(start)
    ids, mask = pad_rows(rows, starts)
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.long).view(-1, 2).amax(1)
    return Pairs(
        prompts=asked, chosen_ids=ids[::2], chosen_mask=mask[::2], rejected_ids=ids[1::2], rejected_mask=mask[1::2], lengths=lengths
    )


def encode_completion(policy: Policy, prompt: Prompt, completion: str) -> tuple[list[int], int]:
    """Ids of prompt, completion and EOS, and the position at which the completion begins.

    Args:
        policy: whose tokenizer and chat template are used.
        prompt: asked.
        completion: what is said to it, without EOS.
    """
    eos = policy.tokenizer.eos_token_id if policy.tokenizer.eos_token_id is not None else min(policy.eos_token_ids)
    question = policy.encode(prompt)
    return [*question, *policy.tokenizer.encode(completion, add_special_tokens=False), eos], len(question)


def refuse_too_long(policy: Policy, prompt: Prompt, tokens: int, max_length: int | None) -> None:
    """A cut completion is not what was compared, so a row is taken whole or not at all.

    Raises:
        ValueError: the row has more tokens than `max_length` or than the policy takes.
    """
    bound = min((b for b in (max_length, policy.max_positions) if b is not None), default=None)
    if bound is not None and tokens > bound:
        raise ValueError(
            f"prompt {prompt.id!r} and its completion take {tokens} tokens, and at most {bound} are taken: raise model.max_length (the "
            f"policy takes {policy.max_positions}), or drop the row"
        )


def pad_rows(rows: Sequence[Sequence[int]], starts: Sequence[int]) -> tuple[Tensor, Tensor]:
    """`[N, L]` ids padded on the right, and `[N, L]` bool: the positions from `starts` on that hold a token.

    Args:
        rows: ids of each row.
        starts: where the completion of each row begins.
    """
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.long)
    ids = torch.zeros(len(rows), max(map(len, rows), default=0), dtype=torch.long)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.tensor(row)
    positions = torch.arange(ids.shape[1])
    return ids, (positions >= torch.tensor(starts, dtype=torch.long)[:, None]) & (positions < lengths[:, None])
