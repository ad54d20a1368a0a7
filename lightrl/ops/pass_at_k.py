"""The chance that one of k completions is right, from the n that were drawn."""

from collections import Counter
from collections.abc import Sequence

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


def majority(answers: Sequence[str | None], right: Sequence[float]) -> float:
    """The chance that the answer which most completions give is right, a tie being broken by lot.

    Args:
        answers: of each completion; equal texts are one answer, None does not vote.
        right: of each completion, 1 if it is right and 0 if not; completions that differ under one answer count by their mean.

    Returns:
        In [0, 1]; 0 if nobody votes.

    Source: Wang et al. 2022 (self-consistency), arXiv:2203.11171, section 2.
    """
    votes = Counter(answer for answer in answers if answer is not None)
    if not votes:
        return 0.0
    most = max(votes.values())
    leaders = [answer for answer, count in votes.items() if count == most]
    shares = [sum(r for a, r in zip(answers, right, strict=True) if a == leader) / most for leader in leaders]
    return sum(shares) / len(leaders)
