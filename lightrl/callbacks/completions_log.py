"""Sampled completions as text, with what they scored: in TensorBoard and, at first, on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from rich.console import Console
from torch import Tensor

from lightrl.callbacks.conversation_text import has_turns, lines, markdown, turns_of
from lightrl.callbacks.logged_texts import Row, add_table
from lightrl.callbacks.shown_text import code, quoted
from lightrl.parts.environment import Environment
from lightrl.rewards.reward_set import RewardSet
from lightrl.types import Outcome, Prompt, Rollout, ScoredRollout, TrainingBatch


class CompletionsLog(Callback):
    """Shows a few completions of every so many rollouts, one group at a time, with what each reward said and brought, and the advantage."""

    in_every_run = True

    def __init__(self, every_n_rollouts: int = 10, rows: int = 8, print_first: bool = True) -> None:
        """
        Args:
            every_n_rollouts: rollouts between two tables; at least 1.
            rows: completions in a table.
            print_first: also print the table of the first rollout on the terminal.

        Raises:
            ValueError: every_n_rollouts or rows below 1.
        """
        if every_n_rollouts < 1 or rows < 1:
            raise ValueError(f"CompletionsLog needs every_n_rollouts >= 1 and rows >= 1, got {every_n_rollouts} and {rows}")
        self.every_n_rollouts, self.rows, self.print_first = every_n_rollouts, rows, print_first

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log the rollout that has just been learnt from."""
        experience = getattr(pl_module, "experience", None)
        if experience is None or not trainer.is_global_zero or trainer.current_epoch % self.every_n_rollouts:
            return
        rewards = _rewards_of(pl_module)
        # schedules have already gone on to the next rollout
        brought = rewards.contributions(experience, rollouts=rewards.rollouts - 1)
        author = _author_of(pl_module)
        table = completions_table(experience, self.rows, brought, author)
        add_table(trainer, "completions", completion_rows(experience, self.rows, brought, author), table, trainer.current_epoch + 1)
        if self.print_first and trainer.current_epoch == 0:
            Console(stderr=True).print(terminal_lines(experience, 4, brought, author), markup=False, highlight=False)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log some validation completions."""
        samples = getattr(getattr(pl_module, "collector", None), "samples", None)
        if samples is not None and trainer.is_global_zero:
            rewards = _rewards_of(pl_module)
            brought = rewards.contributions(samples, normalized=False)
            table = completions_table(samples, self.rows, brought, _author_of(pl_module))
            rows = completion_rows(samples, self.rows, brought, _author_of(pl_module))
            add_table(trainer, "val/completions", rows, table, trainer.current_epoch + 1)


def _rewards_of(module: Any) -> RewardSet:
    rewards: RewardSet = module.collector.rewards
    return rewards


def _author_of(module: Any) -> str:
    author: str = module.collector.environment.author
    return author


def completions_table(rollout: Rollout, rows: int, brought: Mapping[str, Tensor] | None = None, author: str = Environment.author) -> str:
    """A Markdown table of the first rows: prompt and completion, or the whole conversation, finish reason, tokens, rewards, advantage.

    Args:
        rollout: N rows.
        rows: how many to show.
        brought: per reward `[N]`, what it brings into the row's reward; `0.5 → +0.1` is a score of 0.5 that brings 0.1.
        author: the name of the environment.
    """
    names = list(rollout.reward_parts) if isinstance(rollout, ScoredRollout) else []
    learnt, talks = isinstance(rollout, TrainingBatch), has_turns(rollout)
    heads = [
        *(["conversation"] if talks else ["prompt", "completion"]),
        "finish",
        "tokens",
        *(names if brought is None else [f"{name}: score → brings" for name in names]),
        *(["reward", "advantage"] if learnt else []),
    ]
    table = [" | ".join(heads), " | ".join("---" for _ in heads)]
    for i in range(min(rows, len(rollout))):
        said = [markdown(rollout, i, author)] if talks else [code(prompt_text(rollout.prompts[i])), code(rollout.completions[i])]
        cells = [*said, _finish(rollout, i)]
        cells += [str(int(rollout.response_lengths[i])), *scores(rollout, i, brought).values()]
        if isinstance(rollout, TrainingBatch):
            cells += [reward_text(rollout, i), advantage_text(rollout, i)]
        table.append(" | ".join(cells))
    return "\n".join(table)


def _finish(rollout: Rollout, row: int) -> str:
    failure = rollout.episode(row).failure
    return rollout.finish_reason[row] if failure is None else f"failed: {code(failure)}"


def terminal_lines(rollout: Rollout, rows: int, brought: Mapping[str, Tensor] | None = None, author: str = Environment.author) -> str:
    """The first completions, a few lines each, for the terminal.

    Args:
        rollout: N rows.
        rows: how many to show.
        brought: as in `completions_table`.
        author: the name of the environment.
    """
    blocks, talks = [], has_turns(rollout)
    for i in range(min(rows, len(rollout))):
        said = [f"{name} {score}" for name, score in scores(rollout, i, brought).items()]
        if isinstance(rollout, TrainingBatch):
            said += [f"reward {reward_text(rollout, i)}", f"advantage {advantage_text(rollout, i)}"]
        asked, answered = quoted(prompt_text(rollout.prompts[i])), quoted(rollout.completions[i])
        shown = lines(rollout, i, author) if talks else f"  prompt      {asked}\n  completion  {answered}"
        blocks.append(f"{shown}\n  {rollout.finish_reason[i]} after {int(rollout.response_lengths[i])} tokens; {', '.join(said)}")
    return "First completions:\n" + "\n\n".join(blocks)


def scores(rollout: Rollout, row: int, brought: Mapping[str, Tensor] | None = None) -> dict[str, str]:
    """The score of every reward for a row, by name; nothing where the rollout was not scored."""
    if not isinstance(rollout, ScoredRollout):
        return {}
    return {name: score_text(rollout, name, row, brought) for name in rollout.reward_parts}


def score_text(rollout: ScoredRollout, name: str, row: int, brought: Mapping[str, Tensor] | None = None) -> str:
    """The score of one reward for a row, its steps added up, or the reason why there is none; and what it brings into the row's reward."""
    score = score_of(rollout, name, row)
    said = Outcome(int(rollout.outcomes[name][row])).name.lower() if score is None else f"{score:.3g}"
    if brought is None or not counts(rollout, name, row):
        return said
    return f"{said} → {float(brought[name][row]):+.3g}"


def reward_text(rollout: TrainingBatch, row: int) -> str:
    """The row's reward, KL and shaping included."""
    return f"{float(rollout.rewards[row]):+.3g}" if rollout.scorable[row] else "unscorable"


def advantage_text(rollout: TrainingBatch, row: int) -> str:
    """The mean advantage over the row's tokens; nothing without any."""
    tokens = rollout.response_mask[row]
    return f"{float(rollout.advantages[row][tokens].mean()):+.3f}" if tokens.any() else ""


LIMIT = 10_000
"""The most characters of a text."""


def completion_rows(
    rollout: Rollout, rows: int, brought: Mapping[str, Tensor] | None = None, author: str = Environment.author
) -> list[Row]:
    """The first rows: prompt and completion, or the whole conversation, finish reason, tokens, scores, reward, advantage.

    Args:
        rollout: N rows.
        rows: how many.
        brought: per reward `[N]`, what it brings into the row's reward.
        author: the name of the environment.
    """
    talks = has_turns(rollout)
    return [_row(rollout, i, brought, author, talks) for i in range(min(rows, len(rollout)))]


def _row(rollout: Rollout, i: int, brought: Mapping[str, Tensor] | None, author: str, talks: bool) -> Row:
    failure = rollout.episode(i).failure
    row: dict[str, str | float | int | None] = {"prompt": _cut(prompt_text(rollout.prompts[i])), "completion": _cut(rollout.completions[i])}
    if talks:
        row["conversation"] = _cut("\n".join(f"{name}: {quoted(text, LIMIT)}" for name, text in turns_of(rollout, i, author)))
    row["finish"] = rollout.finish_reason[i] if failure is None else f"failed: {failure}"
    row["tokens"] = int(rollout.response_lengths[i])
    if isinstance(rollout, ScoredRollout):
        for name in rollout.reward_parts:
            row[f"{name}: score"] = score_of(rollout, name, i)
            if brought is not None:
                row[f"{name}: brings"] = float(brought[name][i]) if counts(rollout, name, i) else None
    if isinstance(rollout, TrainingBatch):
        tokens = rollout.response_mask[i]
        row["reward"] = float(rollout.rewards[i]) if rollout.scorable[i] else None
        row["advantage"] = float(rollout.advantages[i][tokens].mean()) if tokens.any() else None
    return row


def score_of(rollout: ScoredRollout, name: str, row: int) -> float | None:
    """The score of one reward for a row, its steps added up; None where it gave no value."""
    given = Outcome(int(rollout.outcomes[name][row])) is Outcome.VALUE
    return float(rollout.reward_parts[name][row].nansum()) if given else None


def counts(rollout: ScoredRollout, name: str, row: int) -> bool:
    """True if the reward brings something into the row's reward."""
    nothing = (Outcome.ABSTAINED, Outcome.ERROR, Outcome.TIMEOUT)
    return Outcome(int(rollout.outcomes[name][row])) not in nothing and bool(rollout.scorable[row])


def prompt_text(prompt: Prompt) -> str:
    """The prompt as it was asked, the last message of a conversation."""
    return prompt.text if prompt.text is not None else (prompt.messages or ({"content": ""},))[-1]["content"]


def _cut(text: str) -> str:
    whole = text.encode("utf-8", "backslashreplace").decode()  # half of a surrogate pair cannot be written
    return whole if len(whole) <= LIMIT else f"{whole[:LIMIT]}... ({len(text)} characters)"
