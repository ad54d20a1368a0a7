"""Sampled completions as rows of a table whose numbers are numbers, so that a logger can filter and sort them."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from lightrl.callbacks.conversation_text import has_turns, turns_of
from lightrl.callbacks.logged_texts import Row
from lightrl.callbacks.shown_text import quoted
from lightrl.parts.environment import Environment
from lightrl.types import Outcome, Prompt, Rollout, ScoredRollout, TrainingBatch

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
