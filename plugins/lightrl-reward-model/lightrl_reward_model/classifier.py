"""A sequence classifier from a folder, and its scores at the tokens that count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from lightrl import EncodedCompletion

Pooling = Literal["last", "mean"]


class Classifier:
    """A trunk and a linear head, read without gradient.

    The head of transformers looks for the last token that is not the padding token, which is the wrong one where padding and EOS
    are one token and a row ends with it. Here rows are padded on the right and their lengths are known.
    """

    def __init__(self, model: Any, label: int) -> None:
        """
        Args:
            model: a decoder of transformers with a linear head named `score`.
            label: which of the head's outputs is the score.

        Raises:
            ValueError: another kind of head.
        """
        head = getattr(model, "score", None)
        if not isinstance(head, nn.Linear):
            raise ValueError(
                f"{type(model).__name__} has no linear head `score` over its tokens, as decoders with one score per token have"
            )
        self._model = model.eval().requires_grad_(False)
        # a reward of bfloat16 could tell apart no more than 256 scores between two powers of two
        self._head, self._label = head.float(), label

    def to(self, device: torch.device | str) -> None:
        """Move it, if it is elsewhere."""
        self._model.to(device)

    def scores(self, rows: Sequence[EncodedCompletion], pooling: Pooling, batch_tokens: int | None) -> Tensor:
        """`[N]` float64, on the CPU: the head's output at the last token, or its mean over the response's tokens.

        Args:
            rows: N conversations.
            pooling: `last` or `mean`.
            batch_tokens: padded tokens of one forward pass; None: all rows at once.
        """
        out = torch.zeros(len(rows), dtype=torch.float64)
        for batch in batches([len(row.ids) for row in rows], batch_tokens):
            out[batch] = self._batch([rows[i] for i in batch], pooling)
        return out

    def _batch(self, rows: list[EncodedCompletion], pooling: Pooling) -> Tensor:
        device = self._head.weight.device
        lengths = [len(row.ids) for row in rows]
        ids = torch.zeros(len(rows), max(lengths), dtype=torch.long)
        counted = torch.zeros(ids.shape, dtype=torch.bool)
        for i, row in enumerate(rows):
            ids[i, : lengths[i]] = torch.tensor(row.ids)
            counted[i, row.response if pooling == "mean" else lengths[i] - 1 : lengths[i]] = True
        there = torch.arange(ids.shape[1]) < torch.tensor(lengths)[:, None]
        # training may run in autocast, which is no concern of this model
        with torch.inference_mode(), torch.autocast(device.type, enabled=False):
            hidden = self._model.base_model(input_ids=ids.to(device), attention_mask=there.long().to(device), use_cache=False)
            logits = self._head(hidden.last_hidden_state[counted.to(device)].float())[:, self._label]
        of_tokens = logits.double().cpu().split(counted.sum(1).tolist())
        return torch.tensor([float(tokens.mean()) for tokens in of_tokens], dtype=torch.float64)


def batches(lengths: Sequence[int], budget: int | None) -> Iterator[list[int]]:
    """Cut rows, longest first, into batches of at most `budget` padded tokens; a longer row stands alone."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    while order:
        size = len(order) if budget is None else max(1, budget // lengths[order[0]])
        yield order[:size]
        order = order[size:]
