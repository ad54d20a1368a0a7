"""Sampled completions as text, with what they scored: in TensorBoard and, at first, on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lightning.pytorch import Callback, LightningModule, Trainer
from rich.console import Console
from torch import Tensor

from lightrl.callbacks.logged_texts import Row, add_table
from lightrl.callbacks.shown_text import code, cut, has_turns, lines, markdown, prompt_text, quoted, turns_of
from lightrl.parts.environment import Environment
from lightrl.ranges import Count, refuse_outside
from lightrl.training.online.policy_optimization import PolicyOptimization
from lightrl.training.policy_module import PolicyModule
from lightrl.types import Outcome, Rollout, ScoredRollout, TrainingBatch


class CompletionsLog(Callback):
    """Shows a few completions of every so many rollouts, one group at a time, with what each reward said and brought, and the advantage."""

    in_every_run = True

    def __init__(self, every_n_rollouts: Count = 10, rows: Count = 8, print_first: bool = True) -> None:
        """
        Args:
            every_n_rollouts: rollouts between two tables.
            rows: completions in a table.
            print_first: also print the table of the first rollout on the terminal.
        """
        self.every_n_rollouts, self.rows, self.print_first = every_n_rollouts, rows, print_first
        refuse_outside(type(self), vars(self))

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log the rollout that has just been learnt from."""
        if not isinstance(pl_module, PolicyOptimization) or not trainer.is_global_zero or trainer.current_epoch % self.every_n_rollouts:
            return
        if (experience := pl_module.experience) is None:
            return
        rewards, author = pl_module.collector.rewards, pl_module.collector.environment.author
        # schedules have already gone on to the next rollout
        brought = rewards.contributions(experience, rollouts=rewards.rollouts - 1)
        self._log(trainer, "completions", experience, brought, author)
        if self.print_first and trainer.current_epoch == 0:
            Console(stderr=True).print(terminal_lines(experience, 4, brought, author), markup=False, highlight=False)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log some validation completions."""
        collector = pl_module.collector if isinstance(pl_module, PolicyModule) else None
        if collector is not None and collector.rewards is not None and collector.samples is not None and trainer.is_global_zero:
            brought = collector.rewards.contributions(collector.samples, held_out=True)
            self._log(trainer, "val/completions", collector.samples, brought, collector.environment.author)

    def _log(self, trainer: Trainer, tag: str, rollout: Rollout, brought: Mapping[str, Tensor], author: str) -> None:
        rows = completion_rows(rollout, self.rows, brought, author)
        add_table(trainer, tag, rows, completions_table(rollout, self.rows, brought, author))


LIMIT = 10_000
"""The most characters of a text in a table that is no Markdown."""


@dataclass(frozen=True)
class Measured:
    """The numbers of one row; None where there is none."""

    scores: dict[str, float | None]
    """Of each reward, its steps added up."""
    outcomes: dict[str, str]
    """Of each reward, in a word."""
    brought: dict[str, float | None]
    """By each reward into the row's reward; empty where that is not asked for."""
    reward: float | None
    """The row's, KL and shaping included."""
    advantage: float | None
    """The mean over the row's tokens."""

    @classmethod
    def of(cls, rollout: Rollout, row: int, brought: Mapping[str, Tensor] | None) -> Measured:
        """Those of a row; `brought` is per reward `[N]`, what it brings into the row's reward, or None where that is not asked for."""
        if not isinstance(rollout, ScoredRollout):
            return cls({}, {}, {}, None, None)
        outcomes = {name: Outcome(int(rollout.outcomes[name][row])) for name in rollout.reward_parts}
        scores = {n: float(rollout.reward_parts[n][row].nansum()) if o is Outcome.VALUE else None for n, o in outcomes.items()}
        counting = {name: bool(rollout.scorable[row]) and outcome not in WITHOUT for name, outcome in outcomes.items()}
        brings = {name: float(brought[name][row]) if counts else None for name, counts in counting.items()} if brought is not None else {}
        reward = advantage = None
        if isinstance(rollout, TrainingBatch):
            tokens = rollout.response_mask[row]
            reward = float(rollout.rewards[row]) if rollout.scorable[row] else None
            advantage = float(rollout.advantages[row][tokens].mean()) if tokens.any() else None
        return cls(scores, {name: outcome.name.lower() for name, outcome in outcomes.items()}, brings, reward, advantage)

    def score_texts(self) -> dict[str, str]:
        """Of each reward its score, or the reason why there is none; `0.5 → +0.1` is a score of 0.5 that brings 0.1."""
        said = {name: self.outcomes[name] if score is None else f"{score:.3g}" for name, score in self.scores.items()}
        return {n: text if (brings := self.brought.get(n)) is None else f"{text} → {brings:+.3g}" for n, text in said.items()}

    def learnt_texts(self) -> tuple[str, str]:
        """Reward and advantage."""
        reward = "unscorable" if self.reward is None else f"{self.reward:+.3g}"
        return reward, "" if self.advantage is None else f"{self.advantage:+.3f}"


WITHOUT = (Outcome.ABSTAINED, Outcome.ERROR, Outcome.TIMEOUT)
"""Outcomes of a reward that brings nothing into the row's reward."""


def completions_table(rollout: Rollout, rows: int, brought: Mapping[str, Tensor] | None = None, author: str = Environment.author) -> str:
    """A Markdown table of the first rows: prompt and completion, or the whole conversation, finish reason, tokens, rewards, advantage.

    Args:
        brought: per reward `[N]`, what it brings into the row's reward.
    """
    names = list(rollout.reward_parts) if isinstance(rollout, ScoredRollout) else []
    learnt, talks = isinstance(rollout, TrainingBatch), has_turns(rollout)
    heads = ["conversation"] if talks else ["prompt", "completion"]
    heads += ["finish", "tokens", *(names if brought is None else [f"{name}: score → brings" for name in names])]
    heads += ["reward", "advantage"] if learnt else []
    table = [" | ".join(heads), " | ".join("---" for _ in heads)]
    for i in range(min(rows, len(rollout))):
        measured, failure = Measured.of(rollout, i, brought), rollout.episode(i).failure
        cells = [markdown(rollout, i, author)] if talks else [code(prompt_text(rollout.prompts[i])), code(rollout.completions[i])]
        cells += [rollout.finish_reason[i] if failure is None else f"failed: {code(failure)}", str(int(rollout.response_lengths[i]))]
        cells += [*measured.score_texts().values(), *(measured.learnt_texts() if learnt else ())]
        table.append(" | ".join(cells))
    return "\n".join(table)


def terminal_lines(rollout: Rollout, rows: int, brought: Mapping[str, Tensor] | None = None, author: str = Environment.author) -> str:
    """The first completions, a few lines each, for the terminal; the arguments are those of `completions_table`."""
    blocks, talks = [], has_turns(rollout)
    for i in range(min(rows, len(rollout))):
        measured = Measured.of(rollout, i, brought)
        said = [f"{name} {score}" for name, score in measured.score_texts().items()]
        if isinstance(rollout, TrainingBatch):
            said += [f"{name} {text}" for name, text in zip(("reward", "advantage"), measured.learnt_texts(), strict=True)]
        asked, answered = quoted(prompt_text(rollout.prompts[i])), quoted(rollout.completions[i])
        shown = lines(rollout, i, author) if talks else f"  prompt      {asked}\n  completion  {answered}"
        blocks.append(f"{shown}\n  {rollout.finish_reason[i]} after {int(rollout.response_lengths[i])} tokens; {', '.join(said)}")
    return "First completions:\n" + "\n\n".join(blocks)


def completion_rows(
    rollout: Rollout, rows: int, brought: Mapping[str, Tensor] | None = None, author: str = Environment.author
) -> list[Row]:
    """The first rows for loggers with tables of their own; the arguments are those of `completions_table`."""
    talks, found = has_turns(rollout), list[Row]()
    for i in range(min(rows, len(rollout))):
        measured, failure = Measured.of(rollout, i, brought), rollout.episode(i).failure
        row: dict[str, str | float | int | None] = {
            "prompt": _cut(prompt_text(rollout.prompts[i])),
            "completion": _cut(rollout.completions[i]),
        }
        if talks:
            row["conversation"] = _cut("\n".join(f"{name}: {quoted(text, LIMIT)}" for name, text in turns_of(rollout, i, author)))
        row["finish"] = rollout.finish_reason[i] if failure is None else f"failed: {failure}"
        row["tokens"] = int(rollout.response_lengths[i])
        for name, score in measured.scores.items():
            row[f"{name}: score"] = score
            if brought is not None:
                row[f"{name}: brings"] = measured.brought[name]
        if isinstance(rollout, TrainingBatch):
            row |= {"reward": measured.reward, "advantage": measured.advantage}
        found.append(row)
    return found


def _cut(text: str) -> str:
    return cut(text.encode("utf-8", "backslashreplace").decode(), LIMIT)  # half of a surrogate pair cannot be written
