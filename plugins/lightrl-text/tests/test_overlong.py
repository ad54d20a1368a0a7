"""Golden numbers of the soft overlong punishment, and that it looks at tokens."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lightrl_text import SoftOverlong
from lightrl_workshop.experience import experience

from lightrl import BatchReward
from lightrl.registry.classes import registry
from lightrl.rewards.reward_set import RewardSet


class Lengths:
    """All that the reward reads of a rollout."""

    def __init__(self, lengths: list[int]) -> None:
        self.response_lengths = torch.tensor(lengths)


def score(lengths: list[int], max_length: int = 20480, cache: int = 4096) -> list[float]:
    return SoftOverlong(max_length, cache).score(Lengths(lengths)).tolist()


def test_the_papers_numbers() -> None:
    expected = [0, 0, -0.000244, -0.5, -1, -1]
    assert score([1, 16384, 16385, 18432, 20480, 20481]) == pytest.approx(expected, abs=1e-5)
    assert score([90], max_length=100, cache=20) == pytest.approx([-0.5])


def test_beyond_the_limit_it_stays_at_minus_one() -> None:
    """Without a floor, as in one implementation, 24576 tokens would give -2."""
    assert score([24576]) == [-1.0]


@given(st.integers(1, 50), st.integers(1, 50), st.lists(st.integers(0, 200), min_size=1))
def test_it_falls_from_0_to_minus_1(cache: int, more: int, lengths: list[int]) -> None:
    found = score(sorted(lengths), cache + more, cache)
    assert all(-1 <= value <= 0 for value in found)
    assert found == sorted(found, reverse=True)


def test_it_counts_sampled_tokens_whatever_the_text() -> None:
    rows = experience([0.0, 0.0], lengths=[2, 4], padding=3)
    rows.completions = ["", "a very long text"]
    scored = RewardSet({"length": SoftOverlong(4, 4)}).score(rows)
    assert scored.reward_parts["length"].tolist() == [-0.5, -1.0]
    assert scored.scorable.all()


@pytest.mark.parametrize(("max_length", "cache"), [(10, 0), (10, 11), (0, 1)])
def test_impossible_lengths_are_refused(max_length: int, cache: int) -> None:
    with pytest.raises(ValueError, match=r"cache .*max_length"):
        SoftOverlong(max_length, cache)


def test_the_hook_registers_it() -> None:
    assert registry().resolve("reward", "SoftOverlong") is SoftOverlong
    assert issubclass(SoftOverlong, BatchReward)
