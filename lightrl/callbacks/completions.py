"""Sampled completions as text, with what they scored: in TensorBoard and, at first, on the terminal."""

from __future__ import annotations

import json
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from rich.console import Console

from lightrl.types import Outcome, Prompt, Rollout, ScoredRollout


class CompletionsLog(Callback):
    """Shows a few completions of every so many rollouts, one group at a time, with reward parts and advantage."""

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
        table = completions_table(experience, self.rows)
        add_text(trainer, "completions", table, trainer.current_epoch + 1)
        if self.print_first and trainer.current_epoch == 0:
            Console(stderr=True).print(terminal_lines(experience, 4), markup=False, highlight=False)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log some validation completions."""
        samples = getattr(pl_module, "samples", None)
        if samples is not None and trainer.is_global_zero:
            add_text(trainer, "val/completions", completions_table(samples, self.rows), trainer.current_epoch + 1)


def completions_table(rollout: Rollout, rows: int) -> str:
    """A Markdown table of the first rows: prompt, completion, finish reason, tokens, reward parts, advantage."""
    parts = rollout.reward_parts if isinstance(rollout, ScoredRollout) else {}
    advantages = getattr(rollout, "advantages", None)
    heads = ["prompt", "completion", "finish", "tokens", *parts, *(["advantage"] if advantages is not None else [])]
    lines = [" | ".join(heads), " | ".join("---" for _ in heads)]
    for i in range(min(rows, len(rollout))):
        cells = [_shown(prompt_text(rollout.prompts[i])), _shown(rollout.completions[i]), rollout.finish_reason[i]]
        cells += [str(int(rollout.response_lengths[i])), *(score_text(rollout, name, i) for name in parts)]
        if advantages is not None:
            cells.append(f"{float(advantages[i][rollout.response_mask[i]].mean()):+.3f}" if rollout.response_mask[i].any() else "")
        lines.append(" | ".join(cells))
    return "\n".join(lines)


def terminal_lines(rollout: Rollout, rows: int) -> str:
    """The first completions, a few lines each, for the terminal."""
    parts = rollout.reward_parts if isinstance(rollout, ScoredRollout) else {}
    blocks = []
    for i in range(min(rows, len(rollout))):
        scores = ", ".join(f"{name} {score_text(rollout, name, i)}" for name in parts)
        blocks.append(
            f"  prompt      {_cut(prompt_text(rollout.prompts[i]))}\n  completion  {_cut(rollout.completions[i])}\n"
            f"  {rollout.finish_reason[i]} after {int(rollout.response_lengths[i])} tokens; {scores}"
        )
    return "First completions:\n" + "\n\n".join(blocks)


def score_text(rollout: Rollout, name: str, row: int) -> str:
    """What a reward said of a row: the score, its steps added up, or why there is none."""
    assert isinstance(rollout, ScoredRollout)
    outcome = Outcome(int(rollout.outcomes[name][row]))
    if outcome is Outcome.VALUE:
        return f"{float(rollout.reward_parts[name][row].nansum()):.3g}"
    return outcome.name.lower()


def prompt_text(prompt: Prompt) -> str:
    """The prompt as it was asked, the last message of a conversation."""
    return prompt.text if prompt.text is not None else (prompt.messages or ({"content": ""},))[-1]["content"]


def add_text(trainer: Trainer, tag: str, text: str, step: int) -> None:
    """Write text to every TensorBoard logger of the trainer."""
    for logger in trainer.loggers:
        experiment: Any = getattr(logger, "experiment", None)
        if hasattr(experiment, "add_text"):
            experiment.add_text(tag, text, step)


def _cut(text: str, limit: int = 200) -> str:
    quoted = json.dumps(text, ensure_ascii=False)
    return quoted if len(quoted) <= limit else f"{quoted[:limit]}... ({len(text)} characters)"


def _shown(text: str, limit: int = 1000) -> str:
    cut = text if len(text) <= limit else f"{text[:limit]}... ({len(text)} characters)"
    return "`" + cut.replace("`", "'").replace("|", "\\|").replace("\n", "⏎") + "`"
