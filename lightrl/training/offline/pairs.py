"""Two completions of one prompt side by side, encoded as the policy reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lightrl.policy.policy import Policy
from lightrl.rows import Sequences
from lightrl.training.offline.encoded_rows import encode_rows
from lightrl.training.offline.offline_rows import OfflineRows
from lightrl.training.offline.preference_columns import paired_texts
from lightrl.training.offline.sequence_logprobs import ends
from lightrl.types import Prompt


@dataclass(kw_only=True)
class Pairs(OfflineRows):
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
    place: Tensor
    """`[N]` int64: the number of each pair among those that its rank has in the step."""
    chosen_reference: Tensor | None = None
    """`[N]` log-probs of the better completions under a reference, where one is needed."""
    rejected_reference: Tensor | None = None
    """`[N]` log-probs of the worse completions under it."""

    def sequences(self) -> Sequences:
        """Two for each row: the better completion and the worse one."""
        ids, mask = self.stacked()
        return Sequences(ids, ends(mask), torch.arange(len(self)).repeat(2))

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
    read = [paired_texts(prompt, chosen, rejected) for prompt in prompts]
    asked, texts = [prompt for prompt, _, _ in read], [text for _, *both in read for text in both]
    rows = encode_rows(policy, [prompt for prompt in asked for _ in range(2)], texts, max_length)
    return Pairs(
        prompts=asked,
        chosen_ids=rows.ids[::2],
        chosen_mask=rows.mask[::2],
        rejected_ids=rows.ids[1::2],
        rejected_mask=rows.mask[1::2],
        lengths=rows.lengths.view(-1, 2).amax(1),
        place=torch.arange(len(asked)),
    )
