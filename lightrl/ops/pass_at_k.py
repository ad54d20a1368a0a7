"""The chance that one of k completions is right, from the n that were drawn."""

import torch
from torch import Tensor


def pass_at_k(count: Tensor, right: Tensor, k: int) -> Tensor:
    """Unbiased estimate of the probability that at least one of k completions is right.

    pass@k = 1 - C(n - c, k) / C(n, k), with n completions of which c are right; the quotient is the product of 1 - k / i over
    i = n - c + 1, ..., n, which does not overflow.

    Args:
        count: `[P]`, n: completions of each prompt.
        right: `[P]`, c: those that are right.
        k: completions that one may try.

    Returns:
        `[P]` float64 in [0, 1]; NaN where n < k.

    Source: Chen et al. 2021 (Codex), arXiv:2107.03374, eq. 1.
    """
    n, wrong = count.double(), (count - right).double()
    i = torch.arange(1, int(count.max()) + 1 if count.numel() else 1, dtype=torch.float64, device=count.device)
    factors = torch.where((i > wrong[:, None]) & (i <= n[:, None]), 1 - k / i, 1.0)
    # with fewer than k wrong ones, one of any k is right; the product has a factor of 0 or below there
    estimate = torch.where(wrong < k, 1.0, 1 - factors.prod(1))
    return torch.where(n < k, torch.nan, estimate)
