"""The columns of comparison data: a prompt, its completions, and which of them are better than which."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lightrl.training.offline.preference_columns import paired_texts, shortened
from lightrl.types import JSON, Prompt


@dataclass(frozen=True)
class RankingColumns:
    """Names of the columns. A row has two completions, a better and a worse one, or several that are ranked or scored."""

    chosen: str = "chosen"
    """The better completion: a text, the assistant's message, or a whole conversation."""
    rejected: str = "rejected"
    """The worse completion, likewise."""
    completions: str = "completions"
    """Where a row has it: a list of two or more texts, in place of chosen and rejected."""
    ranks: str = "ranks"
    """One number per completion, the lowest is the best; equal ranks are not compared."""
    scores: str = "scores"
    """In place of ranks: one number per completion, the highest is the best."""
    margin: str | None = None
    """By how much the better score should lead, 0 or more, one number per row; null: 0."""


@dataclass(frozen=True)
class Ranking:
    """Completions of one prompt."""

    prompt: Prompt
    """The prompt that they answer."""
    completions: list[str]
    """K texts."""
    pairs: list[tuple[int, int]]
    """The better and the worse one of each comparison; none where all rank alike."""
    margin: float
    """Of every comparison."""


def read_ranking(prompt: Prompt, columns: RankingColumns) -> Ranking:
    """Read the columns of a prompt.

    Raises:
        ValueError: columns are missing or contradict each other, or their values are of the wrong kind; the message names the prompt.
    """
    margin = _margin(prompt, columns)
    if columns.completions in prompt.columns:
        texts = _texts(prompt, columns.completions)
        return Ranking(prompt, texts, _pairs(texts, _order(prompt, columns, len(texts))), margin)
    if columns.chosen not in prompt.columns and columns.rejected not in prompt.columns:
        raise ValueError(
            f"prompt {prompt.id!r} has nothing to compare: it needs the columns {columns.chosen!r} and {columns.rejected!r}, or "
            f"{columns.completions!r} with {columns.ranks!r} or {columns.scores!r}, and has: {', '.join(prompt.columns) or 'none'}. Name "
            "other columns in model.columns"
        )
    asked, better, worse = paired_texts(prompt, columns.chosen, columns.rejected)
    return Ranking(asked, [better, worse], [(0, 1)], margin)


def _texts(prompt: Prompt, name: str) -> list[str]:
    value: JSON = prompt.columns[name]
    if not isinstance(value, list) or len(value) < 2 or not all(isinstance(text, str) and text.strip() for text in value):
        raise ValueError(f"prompt {prompt.id!r}: column {name!r} must hold a list of two or more texts, none empty; got {shortened(value)}")
    return list(value)


def _order(prompt: Prompt, columns: RankingColumns, count: int) -> list[float]:
    """One number per completion, the highest is the best."""
    given = [name for name in (columns.ranks, columns.scores) if name in prompt.columns]
    if len(given) != 1:
        raise ValueError(
            f"prompt {prompt.id!r}: beside {columns.completions!r} one of the columns {columns.ranks!r} (the lowest is the best) and "
            f"{columns.scores!r} (the highest is the best) must stand, found {' and '.join(given) or 'neither'}"
        )
    values = prompt.columns[given[0]]
    if not isinstance(values, list) or len(values) != count or not all(map(_is_number, values)):
        raise ValueError(
            f"prompt {prompt.id!r}: column {given[0]!r} must hold one finite number for each of the {count} completions, got "
            f"{shortened(values)}"
        )
    return [-float(v) for v in values] if given[0] == columns.ranks else [float(v) for v in values]


def _pairs(texts: list[str], order: list[float]) -> list[tuple[int, int]]:
    everyone = range(len(texts))
    return [(i, j) for i in everyone for j in everyone if order[i] > order[j] and texts[i] != texts[j]]


def _margin(prompt: Prompt, columns: RankingColumns) -> float:
    if columns.margin is None:
        return 0.0
    value: JSON = prompt.columns.get(columns.margin)
    if not _is_number(value) or float(value) < 0:
        got = shortened(value) if columns.margin in prompt.columns else f"no such column; it has: {', '.join(prompt.columns)}"
        raise ValueError(f"prompt {prompt.id!r}: column {columns.margin!r} must hold a margin, a finite number of 0 or more; got {got}")
    return float(value)


def _is_number(value: JSON) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
