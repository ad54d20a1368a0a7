"""Completions that are good or bad, each on its own, encoded as the policy reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lightrl.policy.policy import Policy
from lightrl.training.offline.encoded_rows import encode_rows
from lightrl.training.offline.offline_rows import SingleRows
from lightrl.training.offline.preference_columns import labelled_text
from lightrl.types import Prompt


@dataclass(kw_only=True)
class Labelled(SingleRows):
    """One completion per prompt, and whether it is a good one."""

    prompts: list[Prompt]
    """N prompts, one per row."""
    completions: list[str]
    """N texts, without EOS."""
    mask: Tensor
    """`[N, L]` bool: the completion and its EOS."""
    good: Tensor
    """`[N]` bool."""
    place: Tensor
    """`[N]` int64: the number of each row among those that its rank has in the step."""
    reference: Tensor | None = None
    """`[N]` log-probs of the completions under the reference, if the objective needs them."""


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
    read = [labelled_text(prompt, completion, label) for prompt in prompts]
    texts, labels = [text for text, _ in read], [good for _, good in read]
    rows = encode_rows(policy, prompts, texts, max_length)
    good = torch.tensor(labels, dtype=torch.bool)
    return Labelled(
        prompts=list(prompts),
        completions=texts,
        input_ids=rows.ids,
        mask=rows.mask,
        good=good,
        lengths=rows.lengths,
        place=torch.arange(len(texts)),
    )
