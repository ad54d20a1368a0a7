"""The scores of an evaluation, from the samples of each prompt: avg@n, pass@k, maj@n, in total and by category."""

from __future__ import annotations

import torch
from torch import Tensor

from lightrl.ops.majority import majority
from lightrl.ops.pass_at_k import pass_at_k
from lightrl.parts.reward import Reward, RowReward
from lightrl.rewards.gates import row_values
from lightrl.training.evaluation import Evaluation
from lightrl.training.statistics import StatisticsLedger
from lightrl.types import ScoredRollout


def report_samples(ledger: StatisticsLedger, scored: ScoredRollout, evaluation: Evaluation, correct: str, reward: Reward) -> None:
    """Add the scores of every prompt; a mean over prompts is what is logged.

    A completion without a score is not counted: a prompt with fewer than k of them has no pass@k, and one
    without any has no score.

    Args:
        ledger: receives the numbers.
        scored: whole groups, all completions of a prompt on this rank.
        evaluation: from which score a completion is right, and which numbers are reported.
        correct: name of the reward that says which completions are right.
        reward: that reward.
    """
    scores = prompt_scores(scored, evaluation, correct, reward)
    categories = _categories(scored, evaluation.category)
    for name, values in scores.items():
        ledger.add(name, values)
        for category in sorted(set(categories)):
            chosen = torch.tensor([other == category for other in categories])
            ledger.add(f"categories/{category}/{name}", values, chosen)
    if evaluation.category is not None:
        for category in categories:
            ledger.add(f"categories/{category}/prompts", 1.0, reduce="sum")


def prompt_scores(scored: ScoredRollout, evaluation: Evaluation, correct: str, reward: Reward) -> dict[str, Tensor]:
    """`[P]` float64 per metric, one value per prompt in the order of group numbers, NaN without one."""
    value = row_values(scored.reward_parts[correct]).cpu()
    sample = ~value.isnan()
    right = (sample & (value > evaluation.right_above)).double()
    groups, index = torch.unique(scored.group.cpu(), return_inverse=True)
    count = torch.zeros(len(groups), dtype=torch.float64).index_add(0, index, sample.double())
    hits = torch.zeros(len(groups), dtype=torch.float64).index_add(0, index, right)
    n = evaluation.samples
    scores = {f"avg@{n}": hits / count.where(count > 0, torch.nan)}
    scores |= {f"pass@{k}": pass_at_k(count, hits, k) for k in evaluation.ks}
    if n > 1 and isinstance(reward, RowReward) and reads_answers(reward):
        rows = [(sample & (index == group)).nonzero()[:, 0].tolist() for group in range(len(groups))]
        votes = [majority([reward.answer_in(scored.completions[i]) for i in of], [float(right[i]) for i in of]) for of in rows]
        scores[f"maj@{n}"] = torch.tensor(votes, dtype=torch.float64).where(count > 0, torch.nan)
    return scores


def reads_answers(reward: RowReward) -> bool:
    """Whether it says which answer a completion gives."""
    return type(reward).answer_in is not RowReward.answer_in


def _categories(scored: ScoredRollout, column: str | None) -> list[str]:
    """The category of each prompt in the order of group numbers; empty if none are asked for."""
    if column is None:
        return []
    first: dict[int, int] = {}
    for row, group in enumerate(scored.group.tolist()):
        first.setdefault(group, row)
    return [str(scored.prompts[first[group]].columns.get(column, f"without {column}")) for group in sorted(first)]
