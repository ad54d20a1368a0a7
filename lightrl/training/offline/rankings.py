"""Ranked completions as rows of a batch: those of one prompt stay together, and each is read once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lightrl.policy.reward_network import RewardNetwork
from lightrl.rows import Sequences, onto
from lightrl.training.offline.offline_rows import OfflineRows
from lightrl.training.offline.ranking_columns import RankingColumns, read_ranking
from lightrl.types import Prompt


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


@dataclass(frozen=True)
class RankingReader:
    """Encodes ranked completions with a reward network's tokens."""

    network: RewardNetwork
    """Whose tokens they are."""
    columns: RankingColumns
    """Where the completions stand."""

    def encode(self, prompts: Sequence[Prompt]) -> Rankings:
        """A batch of prompts.

        Raises:
            ValueError: the columns of one cannot be read.
        """
        read = [read_ranking(prompt, self.columns) for prompt in prompts]
        conversations = [[self.network.encode(one.prompt, text) for text in one.completions] for one in read]
        return Rankings(
            conversations=conversations,
            pairs=[one.pairs for one in read],
            margin=torch.tensor([one.margin for one in read], dtype=torch.float64),
            lengths=torch.tensor([max(map(len, ids)) for ids in conversations], dtype=torch.long),
        )


class RankingMeasure:
    """Gives the longest conversation of each prompt, and counts the prompts whose completions all rank alike."""

    def __init__(self, reader: RankingReader) -> None:
        """
        Args:
            reader: encodes the prompts.
        """
        self._reader = reader
        self.prompts = self.zero_variance = 0
        """Prompts that were measured, and how many of them have nothing to compare."""

    def longest_sequence(self, prompt: Prompt) -> list[int]:
        """The longest conversation of a prompt, by which it is measured.

        Raises:
            ValueError: its columns cannot be read.
        """
        rankings = self._reader.encode([prompt])
        self.prompts, self.zero_variance = self.prompts + 1, self.zero_variance + rankings.zero_variance
        return max(rankings.conversations[0], key=len)
