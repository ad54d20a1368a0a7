"""The one place where model outputs are shifted: the hidden state at t - 1 predicts token t."""

import torch
from torch import Tensor


def predictors(hidden: Tensor, mask: Tensor) -> Tensor:
    """`[M, H]` hidden states that predict the selected tokens, in row-major order.

    Args:
        hidden: `[n, L, H]` last hidden states; entry t has seen tokens 0..t.
        mask: `[n, L]` bool with M positions selected; position 0 has no predictor.

    Raises:
        ValueError: position 0 of a row is selected.
    """
    if mask[:, 0].any():
        raise ValueError("the first token of a row has no predictor: a prompt needs at least one token")
    return hidden[:, :-1][mask[:, 1:]]


def at_tokens(chosen: Tensor, mask: Tensor) -> Tensor:
    """`[n, L]` with the `[M]` chosen values at the selected positions and 0 elsewhere; the inverse of selecting."""
    return torch.zeros(mask.shape, dtype=chosen.dtype, device=chosen.device).masked_scatter(mask, chosen)
