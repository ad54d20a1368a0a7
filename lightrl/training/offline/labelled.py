"""Completions that are good or bad, each on its own, encoded as the policy reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lightrl.policy.policy import Policy
from lightrl.training.offline.pairs import encode_completion, pad_rows, refuse_too_long
from lightrl.training.offline.preference_columns import labelled_text
from lightrl.types import Prompt, Rows


@dataclass(kw_only=True)
class Labelled(Rows):
    """One completion per prompt, and whether it is a good one."""

    prompts: list[Prompt]
    """N prompts, one per row."""
    completions: list[str]
    """N texts, without EOS."""
    input_ids: Tensor
    """`[N, L]` int64: prompt, completion and EOS, padded on the right."""
    mask: Tensor
    """`[N, L]` bool: the completion and its EOS."""
    good: Tensor
    """`[N]` bool."""
    lengths: Tensor
    """`[N]` int64: tokens of each row."""
    reference: Tensor | None = None
    """`[N]` log-probs of the completions under the reference, if the objective needs them."""

    def __len__(self) -> int:
        return len(self.lengths)


def encode_labelled(
    policy: Policy, prompts: Sequence[Prompt], completion: str = "completion", label: str = "label", max_length: int | None = None
) -> Labelled:
    """Rows of prompt, completion and EOS, with their labels.

    Args:
        policy: whose tokenizer and chat template are used.
        prompts: whose columns hold completion and label.
        completion: the column with the completion.
        label: the column that says whether it is good.
        max_length: most tokens of a row; None: as many as the policy takes.

    Raises:
        ValueError: a prompt has no completion or no label, or its row is too long; the message names it.
    """
    texts, labels = zip(*(labelled_text(prompt, completion, label) for prompt in prompts), strict=True) if prompts else ((), ())
    return _rows(policy, prompts, list(texts), torch.tensor(labels, dtype=torch.bool), max_length)


def mismatched(policy: Policy, prompts: Sequence[Prompt], completions: Sequence[str], max_length: int | None = None) -> Labelled:
    """The same prompts with completions that were written for others; those that would be too long are left out.

    Args:
        policy: whose tokenizer and chat template are used.
        prompts: asked.
        completions: one per prompt, of another prompt.
        max_length: most tokens of a row; None: as many as the policy takes.
    """
    bound = min((b for b in (max_length, policy.max_positions) if b is not None), default=None)
    lengths = [len(encode_completion(policy, p, text)[0]) for p, text in zip(prompts, completions, strict=True)]
    kept = [i for i, length in enumerate(lengths) if bound is None or length <= bound]
    return _rows(policy, [prompts[i] for i in kept], [completions[i] for i in kept], torch.zeros(len(kept), dtype=torch.bool), max_length)


def _rows(policy: Policy, prompts: Sequence[Prompt], texts: list[str], good: Tensor, max_length: int | None) -> Labelled:
    rows, starts = [], []
    for prompt, text in zip(prompts, texts, strict=True):
        row, start = encode_completion(policy, prompt, text)
        refuse_too_long(policy, prompt, len(row), max_length)
        rows.append(row)
        starts.append(start)
    ids, mask = pad_rows(rows, starts)
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.long)
    return Labelled(prompts=list(prompts), completions=texts, input_ids=ids, mask=mask, good=good, lengths=lengths)
