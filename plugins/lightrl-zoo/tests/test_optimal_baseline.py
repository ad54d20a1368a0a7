"""The baseline of each token that makes the gradient vary least, by hand."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lightrl_workshop.experience import PROMPT, experience
from lightrl_zoo import LogitGradient, OptimalTokenBaseline
from torch import Tensor


def with_energies(rewards: list[float], energies: list[list[float]], **more) -> Tensor:
    """The advantages of response tokens whose logits have these squared gradients."""
    lengths = more.setdefault("lengths", [len(row) for row in energies])
    table = torch.zeros(len(rewards), PROMPT + max(lengths) + more.get("padding", 0))
    for row, of_row in enumerate(energies):
        table[row, PROMPT : PROMPT + len(of_row)] = torch.tensor(of_row)
    rows = experience(rewards, extras={"old_logit_gradient": table}, **more)
    return OptimalTokenBaseline().compute(rows).advantages[:, PROMPT:]


def test_the_squared_gradient_of_a_log_prob_is_that_of_autograd() -> None:
    logits = torch.randn(5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True)
    ids = torch.tensor([0, 6, 3, 3, 2])
    logits.log_softmax(1).gather(1, ids[:, None]).sum().backward()
    assert logits.grad is not None
    assert LogitGradient().compute(logits, ids).tolist() == pytest.approx(logits.grad.square().sum(1).tolist())
    assert LogitGradient().compute(torch.tensor([[0.0, float("-inf")]]), torch.tensor([0])).tolist() == [0.0]


def test_a_row_weighs_by_its_gradient_so_far() -> None:
    """At the first token W is 1 and 3, so b = 1/4; at the second 1 + 4 and 3 + 2, so b = 1/2; the third belongs to one row alone."""
    found = with_energies([1.0, 0.0], [[1.0, 4.0], [3.0, 2.0, 7.0]])
    assert found.tolist() == [pytest.approx([0.75, 0.5, 0.0]), pytest.approx([-0.25, -0.5, 0.0])]


def test_groups_gaps_and_rows_without_a_score() -> None:
    """What was read between turns has no place, and a row that cannot be scored is no part of its group."""
    rewards, group = [1.0, 0.0, torch.nan, 5.0, 1.0], [4, 4, 4, 1, 1]
    energies = [[1.0, 9.0, 4.0], [3.0, 2.0], [100.0, 100.0], [1.0], [3.0]]
    scorable = [True, True, False, True, True]
    found = with_energies(rewards, energies, group=group, scorable=scorable, gaps=[[1], [], [], [], []], padding=2)
    assert found[0].tolist() == pytest.approx([0.75, 0.0, 0.5, 0.0, 0.0])
    assert found[1].tolist() == pytest.approx([-0.25, -0.5, 0.0, 0.0, 0.0])
    assert found[2].tolist() == [0.0] * 5
    assert found[3:, 0].tolist() == pytest.approx([3.0, -1.0])  # b = (5 + 3) / 4


def test_a_policy_that_is_certain_counts_rows_alike() -> None:
    assert with_energies([1.0, 0.0], [[0.0], [0.0]]).tolist() == [[0.5], [-0.5]]


@settings(deadline=None, max_examples=50)
@given(st.floats(-1e6, 1e6, width=32), st.lists(st.lists(st.floats(0, 2, width=32), min_size=1, max_size=4), min_size=1, max_size=5))
def test_equal_returns_give_exactly_nothing(reward: float, energies: list[list[float]]) -> None:
    assert not with_energies([reward] * len(energies), energies).any()
