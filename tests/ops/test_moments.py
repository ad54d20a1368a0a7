"""Moments of numbers that are spread over ranks."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lightrl_workshop import on_ranks
from torch import Tensor

from lightrl import moments, whiten
from lightrl.ranks import Ranks

NUMBERS = st.lists(st.floats(-1e3, 1e3, width=32), max_size=6)


@given(parts=st.lists(NUMBERS, min_size=1, max_size=4))
def test_they_do_not_depend_on_the_split(parts: list[list[float]]) -> None:
    whole = moments(torch.tensor([x for part in parts for x in part], dtype=torch.float64))
    for found in on_ranks(len(parts), lambda rank, ranks: moments(torch.tensor(parts[rank], dtype=torch.float64), ranks)):
        assert (found.count, found.low, found.high) == (whole.count, whole.low, whole.high)
        assert found.mean == pytest.approx(whole.mean, abs=1e-9)
        assert found.squares == pytest.approx(whole.squares, abs=1e-6)


def test_by_hand() -> None:
    found = moments(torch.tensor([1.0, 3.0, 5.0]))
    assert (found.count, found.mean, found.squares, found.low, found.high) == (3, 3.0, 8.0, 1.0, 5.0)
    assert found.variance(1) == 4.0
    assert found.variance(0) == pytest.approx(8 / 3)
    assert not found.constant()
    assert moments(torch.tensor([0.1 + 0.2, 0.3], dtype=torch.float64)).constant(1e-6)
    assert moments(torch.tensor([])).constant()


def test_whitening_counts_the_positions_of_all_ranks() -> None:
    values = torch.tensor([[1.0, 2.0, 9.0], [4.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    mask = torch.tensor([[True, True, True], [True, False, False], [False, False, False]])
    whole = whiten(values, mask)

    def own(rank: int, ranks: Ranks) -> Tensor:
        return whiten(values[rank : rank + 1], mask[rank : rank + 1], ranks=ranks)

    torch.testing.assert_close(torch.cat(on_ranks(3, own)), whole)


def test_ranks_that_call_unequally_often_are_told_at_once() -> None:
    def forgetful(rank: int, ranks: Ranks) -> None:
        if rank == 0:
            ranks.total(torch.ones(1))

    with pytest.raises(RuntimeError, match=r"rank 0 calls total\(\) and another rank calls nothing"):
        on_ranks(2, forgetful)
