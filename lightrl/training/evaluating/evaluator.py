"""The scores of completions of held-out prompts, and their rows as JSON."""

from __future__ import annotations

from dataclasses import replace

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.core.optimizer import LightningOptimizer
from torch import Tensor

from lightrl.ops.moments import row_values
from lightrl.ops.pass_at_k import majority, pass_at_k
from lightrl.parts.engine import Sampling
from lightrl.parts.reward import Reward, RowReward
from lightrl.training.evaluating.held_out import Evaluation
from lightrl.training.reports.statistics import StatisticsLedger
from lightrl.types import JSON, Rollout, ScoredRollout


def conversation(rollout: Rollout, row: int) -> dict[str, JSON]:
    """The turns of a row and who said what, and why its environment failed if it did; nothing of a row that nobody answered.

    Args:
        rollout: with the records of its episodes.
        row: number of the row.
    """
    episode = rollout.episode(row)
    if episode.turns == 1 and not episode.others and not episode.failure:
        return {}
    failure = {} if episode.failure is None else {"failure": episode.failure}
    return {"turns": episode.turns, "messages": list(episode.messages), **failure}


def sampling_of(evaluation: Evaluation, training: Sampling) -> Sampling:
    """The settings of the evaluation, and those of training where it has none."""
    wanted = {name: getattr(evaluation, name) for name in ("temperature", "top_p", "max_new_tokens")}
    return replace(training, **{name: value for name, value in wanted.items() if value is not None})


def predictions(scored: ScoredRollout) -> list[dict[str, JSON]]:
    """One JSON value per completion, with its prompt, its columns and its rewards; of episodes also the conversation."""
    parts = {name: row_values(part).tolist() for name, part in scored.reward_parts.items()}
    return [
        {
            **prompt.columns,
            "id": prompt.id,
            "prompt": prompt.text if prompt.text is not None else list(prompt.messages or ()),
            "answer": prompt.answer,
            "completion": scored.completions[i],
            "finish_reason": scored.finish_reason[i],
            "tokens": int(scored.response_lengths[i]),
            "rewards": {name: values[i] for name, values in parts.items()},
            **conversation(scored, i),
        }
        for i, prompt in enumerate(scored.prompts)
    ]


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


def evaluate_before_training(trainer: Trainer, optimizer: LightningOptimizer) -> None:
    """Run the validation once, if there is any and no step was made yet.

    Args:
        trainer: at the start of its training.
        optimizer: whose gradients are cleared after it.
    """
    if trainer.global_step == 0 and trainer.enable_validation:
        trainer.validating = True
        trainer.fit_loop.epoch_loop.val_loop.run()
        trainer.training = True
        optimizer.zero_grad()
