from itertools import combinations
from math import comb

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lightrl.ops.pass_at_k import majority, pass_at_k


def estimate(n: int, c: int, k: int) -> float:
    return float(pass_at_k(torch.tensor([n]), torch.tensor([c]), k)[0])


@pytest.mark.parametrize(
    ("n", "c", "k", "value"),
    [
        (5, 2, 1, 0.4),
        (5, 2, 2, 1 - 3 / 10),  # C(3, 2) / C(5, 2)
        (5, 2, 4, 1.0),  # three wrong ones cannot fill four places
        (10, 1, 5, 0.5),
        (32, 0, 32, 0.0),
        (200, 3, 100, 1 - 100 * 99 * 98 / (200 * 199 * 198)),
    ],
)
def test_by_hand(n: int, c: int, k: int, value: float) -> None:
    assert estimate(n, c, k) == pytest.approx(value, abs=1e-12)


@given(st.integers(1, 7).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_it_is_the_share_of_all_choices_of_k_with_a_right_one(sizes: tuple[int, int, int]) -> None:
    n, c, k = sizes
    hits = sum(any(i < c for i in chosen) for chosen in combinations(range(n), k))
    assert estimate(n, c, k) == pytest.approx(hits / comb(n, k), abs=1e-12)


def test_prompts_of_different_counts_stand_side_by_side() -> None:
    found = pass_at_k(torch.tensor([4, 2, 1, 0]), torch.tensor([1, 1, 1, 0]), 2)
    assert found[:2].tolist() == pytest.approx([0.5, 1.0])
    assert found[2:].isnan().all()


def test_the_naive_power_would_be_another_number() -> None:
    assert estimate(4, 2, 2) == pytest.approx(5 / 6)
    assert estimate(4, 2, 2) != pytest.approx(1 - (1 - 2 / 4) ** 2)


@pytest.mark.parametrize(
    ("answers", "right", "value"),
    [
        (["7", "7", "3"], [1, 1, 0], 1.0),
        (["3", "7", "3"], [0, 1, 0], 0.0),
        (["7", "3"], [1, 0], 0.5),  # a tie is broken by lot
        (["7", "3", "5", "7", "3"], [1, 0, 0, 1, 0], 0.5),
        ([None, None, "7"], [0, 0, 1], 1.0),  # who gives no answer does not vote
        ([None, None], [0, 0], 0.0),
        (["7", "7"], [1, 0], 0.5),  # one text, two verdicts
    ],
)
def test_majority_by_hand(answers: list[str | None], right: list[float], value: float) -> None:
    assert majority(answers, right) == value
