"""The evaluation on held-out prompts: its settings, scores, and rows as JSON; and the numbers of every rollout: lengths, episodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

import torch
from annotated_types import Gt, Le
from lightning.pytorch import Trainer
from lightning.pytorch.core.optimizer import LightningOptimizer
from torch import Tensor
from torchmetrics import Metric

from lightrl.ops.moments import row_values
from lightrl.ops.pass_at_k import majority, pass_at_k
from lightrl.parts.engine import Sampling
from lightrl.parts.environment import Environment, tool_names
from lightrl.parts.reward import Reward, RowReward
from lightrl.ranges import Count, GroupSize, Temperature, refuse_outside
from lightrl.training.reports.statistics import Report, StatisticsLedger
from lightrl.types import JSON, Rollout, ScoredRollout


def conversation(rollout: Rollout, row: int) -> dict[str, JSON]:
    """The turns of a row and who said what, and why its environment failed if it did; nothing of a row without answers."""
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

    A completion without a score is not counted: a prompt with fewer than k of them has no pass@k, and one without any has no score.
    """
    scores = prompt_scores(scored, evaluation, correct, reward)
    categories = _categories(scored, evaluation.category)
    for name, values in scores.items():
        ledger.add(name, values)
        for category in sorted(set(categories)):
            ledger.add(f"categories/{category}/{name}", values, torch.tensor([other == category for other in categories]))
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
    if n > 1 and isinstance(reward, RowReward) and type(reward).answer_in is not RowReward.answer_in:
        rows = [(sample & (index == group)).nonzero()[:, 0].tolist() for group in range(len(groups))]
        votes = [majority([reward.answer_in(scored.completions[i]) for i in of], [float(right[i]) for i in of]) for of in rows]
        scores[f"maj@{n}"] = torch.tensor(votes, dtype=torch.float64).where(count > 0, torch.nan)
    return scores


def _categories(scored: ScoredRollout, column: str | None) -> list[str]:
    """The category of each prompt in the order of group numbers; empty if none are asked for."""
    if column is None:
        return []
    first: dict[int, int] = {}
    for row, group in enumerate(scored.group.tolist()):
        first.setdefault(group, row)
    return [str(scored.prompts[first[group]].columns.get(column, f"without {column}")) for group in sorted(first)]


def evaluate_before_training(trainer: Trainer, optimizer: LightningOptimizer) -> None:
    """Run the validation once, if there is any and no step was made yet."""
    if trainer.global_step == 0 and trainer.enable_validation:
        trainer.validating = True
        trainer.fit_loop.epoch_loop.val_loop.run()
        trainer.training = True
        optimizer.zero_grad()


@dataclass(frozen=True)
class Evaluation:
    """Settings of validation and test; what is not given follows the engine's own sampling.

    Beside the rewards, it reports `avg@n` (share of right completions), `pass@k` for some k, and `maj@n` (is the most common
    answer right?), where n is `samples`; maj@n needs a reward that reads answers (`RowReward.answer_in`).
    """

    samples: GroupSize = 1
    """Completions per prompt, n."""
    temperature: Temperature | None = None
    """Divides the logits; 0 takes the likeliest token; None: as in training."""
    top_p: Annotated[float, Gt(0), Le(1)] | None = None
    """Keep the likeliest tokens whose probabilities add up to this; None: as in training."""
    max_new_tokens: Count | None = None
    """Limit on the tokens of a completion; None: as in training."""
    chat_template_kwargs: dict[str, JSON] | None = None
    """Arguments of the policy's chat template, such as `{enable_thinking: false}`, in place of those of training; None: as in training."""
    before_training: bool = True
    """Evaluate the policy once before its first step."""
    correct: str | None = None
    """Name of the reward that says whether a completion is right; None: the first one of the config."""
    right_above: float = 0.0
    """A completion is right if that reward's raw score is above this."""
    pass_at: list[int] | None = None
    """For which k to report pass@k, each in [1, samples]; None: 2, 4, 8, ... up to samples."""
    category: str | None = None
    """Column of the data by whose values the scores are also reported apart, as `categories/{value}/...`."""
    metrics: dict[str, Metric] | None = None
    """Metrics of torchmetrics by name, such as `{chrf: CHRFScore}`, logged as `metrics/NAME`; each gets all completions, without thoughts,
    and the answers of their prompts."""

    def __post_init__(self) -> None:
        refuse_outside(type(self), vars(self))
        if wrong := [k for k in self.ks if not 1 <= k <= self.samples]:
            raise ValueError(
                f"evaluation.pass_at has {wrong}, but pass@k is estimated from evaluation.samples = {self.samples} completions: k must be "
                f"in [1, {self.samples}]; raise evaluation.samples"
            )

    @property
    def ks(self) -> list[int]:
        """For which k pass@k is reported."""
        if self.pass_at is not None:
            return self.pass_at
        return [2**i for i in range(1, self.samples.bit_length()) if 2**i <= self.samples]

    def correct_reward(self, rewards: Mapping[str, Reward]) -> str:
        """Name of the reward that says what is right; a ValueError if there is no reward of the name in `correct`."""
        if self.correct is None:
            return next(iter(rewards))
        if self.correct not in rewards:
            raise ValueError(f"evaluation.correct is {self.correct!r}, which is no reward here. There are: {', '.join(rewards)}")
        return self.correct


ENDS = ("stop", "length", "turns", "failed")
"""Finish reasons of episodes."""


def report_episodes(rollout: Rollout, environment: Environment) -> Report:
    """How the episodes went; nothing for completions without answers.

    `episodes/turns`: means per episode, and the largest. `episodes/tokens`, `episodes/tokens_of_others`: sampled by the policy, and written
    by others after the opening. `episodes/read`: tokens that the engine read, as a multiple of the row's length. `episodes/ended_...`:
    shares of finish reasons. `environment/failed`, `environment/timeout`: shares of episodes. `environment/seconds`: per episode.
    `special_tokens`: spelled by data or the environment, and made plain text. `episodes/opened_turns`: the policy wrote the opening of
    another author's turn, as a share of turns. Everything that the environment counts is added up as `environment/NAME`, and calls of a
    tool that never came are 0.
    """
    report, episodes = Report(), rollout.episodes
    if episodes and any(episode.special for episode in episodes):
        report.add("special_tokens", float(sum(episode.special for episode in episodes)), reduce="sum")
    if environment.max_turns == 1 or not episodes:
        return report
    turns = torch.tensor([float(episode.turns) for episode in episodes])
    report.add("episodes/turns", turns)
    report.add("episodes/max_turns", turns, reduce="max")
    report.add("episodes/tokens", rollout.response_lengths.double().cpu())
    report.add("episodes/tokens_of_others", torch.tensor([float(episode.others) for episode in episodes]))
    read = torch.tensor([float(episode.read) for episode in episodes]).sum()
    report.add("episodes/read", read / rollout.lengths.sum().clamp(min=1).cpu())
    for end in ENDS:
        report.add(f"episodes/ended_{end}", torch.tensor([float(reason == end) for reason in rollout.finish_reason]))
    report.add("environment/failed", torch.tensor([float(episode.failure is not None) for episode in episodes]))
    report.add("environment/timeout", torch.tensor([float(episode.late) for episode in episodes]))
    report.add("environment/seconds", torch.tensor([episode.seconds for episode in episodes]))
    report.add("episodes/opened_turns", torch.tensor([episode.opened / max(1, episode.turns) for episode in episodes]))
    never = {f"tools/{name}/calls" for name in tool_names(environment.tools)}
    for name in sorted(never.union(*(episode.counts for episode in episodes))):
        report.add(f"environment/{name}", float(sum(episode.counts.get(name, 0.0) for episode in episodes)), reduce="sum")
    return report


def report_lengths(rollout: Rollout) -> Report:
    """Lengths and finish reasons of completions, under the names of the field."""
    report, lengths = Report(), rollout.response_lengths.double()
    report.add("completions/mean_length", lengths)
    report.add("completions/min_length", lengths, reduce="min")
    report.add("completions/max_length", lengths, reduce="max")
    report.add("completions/clipped_ratio", rollout.truncated.double())
    return report
