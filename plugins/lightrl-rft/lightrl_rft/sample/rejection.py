"""Rejection sampling: choosing the completions of a prompt that become rows of a data set."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lightrl.types import JSON

Row = dict[str, JSON]


@dataclass(frozen=True)
class Candidate:
    """A completion that was sampled and scored."""

    text: str
    reward: float
    """The run's reward; NaN where it could not be scored."""
    logprob: float
    """log pi(completion | prompt), in nats."""
    finish_reason: str
    """`length`: cut at the token limit."""
    columns: Mapping[str, JSON]
    """Further columns that are written with it."""

    @property
    def usable(self) -> bool:
        """Scored, finished and not blank, so that it may be imitated or compared."""
        return not math.isnan(self.reward) and self.finish_reason != "length" and bool(self.text.strip())


Keep = Callable[[Sequence[Candidate]], list[Row]]
"""Chooses among the completions of one prompt, and gives the columns that are written for it, beside the prompt itself."""


def keep_all(candidates: Sequence[Candidate]) -> list[Row]:
    """Every completion as it was sampled, cut, blank and failed ones too; a reward of null where it could not be scored."""
    return [_row(candidate) for candidate in candidates]


def keep_best(candidates: Sequence[Candidate], per_prompt: int | None = 1, at_least: float | None = None) -> list[Row]:
    """The best distinct completions that are good enough, at most so many (None: any number).

    Of equal rewards the completion that the policy found likeliest comes first.

    Source: best of n, Dong et al. 2023 (RAFT), arXiv:2304.06767, algorithm 1; all above a threshold, Yuan et al. 2023 (RFT),
    arXiv:2308.01825, section 3.3.
    """
    return [_row(candidate) for candidate in ranked(candidates) if at_least is None or candidate.reward >= at_least][:per_prompt]


def keep_pairs(candidates: Sequence[Candidate], per_prompt: int | None = 1, margin: float = 0.0) -> list[Row]:
    """The best completion against the worst, the second best against the second worst, and so on while the first is better.

    At most so many pairs (None: any number), whose rewards differ by more than the margin.
    """
    order = ranked(candidates)
    pairs = list(zip(order, reversed(order), strict=True))[: len(order) // 2]
    return [_pair(best, worst) for best, worst in pairs if best.reward - worst.reward > margin][:per_prompt]


def ranked(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The usable completions without duplicates, by falling reward and then by falling log-prob."""
    order = sorted((c for c in candidates if c.usable), key=lambda c: (-c.reward, -c.logprob))
    first = {candidate.text: candidate for candidate in reversed(order)}
    return [candidate for candidate in order if first[candidate.text] is candidate]


def rejection_counts(candidates: Sequence[Candidate], kept: int, right: float) -> dict[str, float]:
    """Counts of the completions of one prompt, to be summed over prompts; one is right if its reward is above `right`."""
    rewards = [c.reward for c in candidates if not math.isnan(c.reward)]
    good = sum(reward > right for reward in rewards)
    usable = [c for c in candidates if c.usable]
    return {
        "prompts": 1,
        "completions": len(candidates),
        "failed": len(candidates) - len(rewards),
        "cut": sum(c.finish_reason == "length" for c in candidates),
        "blank": sum(not c.text.strip() for c in candidates),
        "duplicates": len(usable) - len({c.text for c in usable}),
        "kept": kept,
        "without": kept == 0,
        "reward": sum(rewards),
        "pass_1": good / len(candidates) if candidates else 0.0,
        "pass_n": good > 0,
    }


def _row(candidate: Candidate) -> Row:
    reward = None if math.isnan(candidate.reward) else candidate.reward
    return {**candidate.columns, "completion": candidate.text, "finish_reason": candidate.finish_reason, "reward": reward}


def _pair(best: Candidate, worst: Candidate) -> Row:
    rewards = {"chosen_reward": best.reward, "rejected_reward": worst.reward, "margin": best.reward - worst.reward}
    return {"chosen": best.text, "rejected": worst.text, **rewards}
