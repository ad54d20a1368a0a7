"""Ranked completions as rows of a batch: those of one prompt stay together, and each is read once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lightrl.policy.reward_network import RewardNetwork
from lightrl.training.offline.ranking_columns import RankingColumns, read_ranking
from lightrl.types import Prompt, Rows


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
class Rankings(Rows):
    """Prompts with the completions that are compared."""

    conversations: list[list[list[int]]]
    """For each of N prompts the token ids of its completions, prompt included."""
    pairs: list[list[tuple[int, int]]]
    """For each of N prompts its comparisons: numbers of the better and of the worse completion."""
    margin: Tensor
    """`[N]` f64, of every comparison of the prompt."""
    lengths: Tensor
    """`[N]` int64: tokens of the prompt's longest conversation."""

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def sequences(self) -> int:
        """The most completions of any prompt."""
        return max(map(len, self.conversations), default=1)

    @property
    def informative(self) -> int:
        """Prompts with something to compare."""
        return sum(map(bool, self.pairs))

    def rows(self) -> tuple[Tensor, Tensor]:
        """`[R, L]` ids of all completions, padded on the right, and `[R]` the position of the last token of each."""
        rows = [torch.tensor(ids) for conversations in self.conversations for ids in conversations]
        ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        return ids.to(self.lengths.device), torch.tensor([len(row) - 1 for row in rows], device=self.lengths.device)

    def comparisons(self) -> Comparisons:
        """All comparisons, with rows numbered as in `rows`."""
        device, found, first = self.lengths.device, [], 0
        for number, (conversations, pairs) in enumerate(zip(self.conversations, self.pairs, strict=True)):
            found += [(first + better, first + worse, number) for better, worse in pairs]
            first += len(conversations)
        better, worse, prompt = torch.tensor(found, dtype=torch.long, device=device).view(-1, 3).unbind(1)
        return Comparisons(better, worse, 1.0 / prompt.bincount(minlength=len(self)).double()[prompt], self.margin[prompt])

    @classmethod
    def nothing(cls) -> Rankings:
        """One conversation of one token and no comparison, for a rank that has none in a step that other ranks make."""
        return cls(conversations=[[[0]]], pairs=[[]], margin=torch.zeros(1, dtype=torch.float64), lengths=torch.ones(1, dtype=torch.long))


class RankingReader:
    """Encodes ranked completions with a reward network's tokens."""

    def __init__(self, network: RewardNetwork, columns: RankingColumns) -> None:
        """
        Args:
            network: whose tokens they are.
            columns: where the completions stand.
        """
        self.network, self.columns = network, columns
        self.seen = self.tied = 0
        """Prompts that were measured, and how many of them have nothing to compare."""

    def longest(self, prompt: Prompt) -> list[int]:
        """The longest conversation of a prompt, by which it is measured.

        Raises:
            ValueError: its columns cannot be read.
        """
        ranking = read_ranking(prompt, self.columns)
        self.seen, self.tied = self.seen + 1, self.tied + (not ranking.pairs)
        return max((self.network.encode(ranking.prompt, text) for text in ranking.completions), key=len)

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
