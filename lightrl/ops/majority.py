"""Majority votes: the answer that most completions of a prompt give, and whether it is right."""

from collections import Counter
from collections.abc import Sequence


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
