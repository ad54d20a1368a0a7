"""Comparison data: the columns of a prompt with ranked completions, and rows that keep those of one prompt together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lightrl.policy.reward_network import RewardNetwork
from lightrl.rows import Sequences, onto
from lightrl.training.offline.encoded_rows import OfflineRows
from lightrl.training.offline.preference_columns import paired_texts
from lightrl.types import JSON, Prompt


@dataclass(frozen=True)
class Comparisons:
    """P comparisons between R rows."""

    better: Tensor
    """`[P]` int64, a row each."""
    worse: Tensor
    """`[P]` int64, a row each."""
    weight: Tensor
    """`[P]` f64: 1 over the number of comparisons of the same prompt."""
    margin: Tensor
    """`[P]` f64."""


@dataclass(kw_only=True)
class Rankings(OfflineRows):
    """Prompts with the completions that are compared."""

    conversations: list[list[list[int]]]
    """For each of N prompts the token ids of its completions, prompt included."""
    pairs: list[list[tuple[int, int]]]
    """For each of N prompts its comparisons: numbers of the better and of the worse completion."""
    margin: Tensor
    """`[N]` f64, of every comparison of the prompt."""

    def sequences(self) -> Sequences:
        """The completions of each prompt."""
        ids, last = self.rows()
        counts = torch.tensor([len(conversations) for conversations in self.conversations], dtype=torch.long)
        return Sequences(ids, last + 1, torch.arange(len(self)).repeat_interleave(counts))

    @property
    def zero_variance(self) -> int:
        """Number of prompts whose completions all rank alike."""
        return sum(not pairs for pairs in self.pairs)

    def rows(self) -> tuple[Tensor, Tensor]:
        """`[R, L]` ids of all completions, padded on the right, and `[R]` the position of the last token of each."""
        rows = [torch.tensor(ids) for conversations in self.conversations for ids in conversations]
        ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        return ids.to(self.lengths.device), torch.tensor([len(row) - 1 for row in rows], device=self.lengths.device)

    def comparisons(self) -> Comparisons:
        """All comparisons, with rows numbered as in `rows`."""
        found, first = [], 0
        for number, (conversations, pairs) in enumerate(zip(self.conversations, self.pairs, strict=True)):
            found += [(first + better, first + worse, number) for better, worse in pairs]
            first += len(conversations)
        better, worse, prompt = torch.tensor(found, dtype=torch.long).view(-1, 3).unbind(1)
        weight = torch.tensor([1.0 / len(pairs) for pairs in self.pairs for _ in pairs], dtype=torch.float64)
        return Comparisons(*(onto(numbers, self.lengths.device) for numbers in (better, worse, weight, self.host.margin[prompt])))

    @classmethod
    def dummy(cls) -> Rankings:
        """One conversation of one token and no comparison, for a rank that has none in a step that other ranks make."""
        return cls(conversations=[[[0]]], pairs=[[]], margin=torch.zeros(1, dtype=torch.float64), lengths=torch.ones(1, dtype=torch.long))


def encode_rankings(network: RewardNetwork, prompts: Sequence[Prompt], columns: RankingColumns) -> Rankings:
    """The ranked completions of prompts in a reward network's tokens, read from these columns."""
    read = [read_ranking(prompt, columns) for prompt in prompts]
    conversations = [[network.encode(one.prompt, text) for text in one.completions] for one in read]
    return Rankings(
        conversations=conversations,
        pairs=[one.pairs for one in read],
        margin=torch.tensor([one.margin for one in read], dtype=torch.float64),
        lengths=torch.tensor([max(map(len, ids)) for ids in conversations], dtype=torch.long),
    )


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
    """Read the columns of a prompt; a ValueError names it if they are missing, contradict each other, or are of the wrong kind."""
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
        raise ValueError(f"prompt {prompt.id!r}: column {name!r} must hold a list of two or more texts, none empty; got {value!r:.60}")
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
            f"prompt {prompt.id!r}: column {given[0]!r} must hold one finite number for each of the {count} completions, got {values!r:.60}"
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
        got = f"{value!r:.60}" if columns.margin in prompt.columns else f"no such column; it has: {', '.join(prompt.columns)}"
        raise ValueError(f"prompt {prompt.id!r}: column {columns.margin!r} must hold a margin, a finite number of 0 or more; got {got}")
    return float(value)


def _is_number(value: JSON) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
