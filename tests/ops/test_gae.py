import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lightrl.parts.advantage import generalised_advantages


def by_definition(rewards: list[float], values: list[float], gamma: float, lam: float) -> list[float]:
    """A_t = sum_k (gamma lambda)^k delta_{t+k}, written as the sum."""
    n = len(rewards)
    following = [*values[1:], 0.0]
    delta = [rewards[t] + gamma * following[t] - values[t] for t in range(n)]
    return [sum((gamma * lam) ** (k - t) * delta[k] for k in range(t, n)) for t in range(n)]


@given(
    st.lists(st.tuples(st.floats(-3, 3), st.floats(-3, 3), st.booleans()), max_size=12),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_agrees_with_the_sum_over_the_policys_tokens_and_skips_gaps(tokens, gamma: float, lam: float) -> None:
    rewards = torch.tensor([[r if m else torch.nan for r, _, m in tokens]], dtype=torch.float64).view(1, -1)
    values = torch.tensor([[v if m else torch.nan for _, v, m in tokens]], dtype=torch.float64).view(1, -1)
    mask = torch.tensor([[m for *_, m in tokens]], dtype=torch.bool).view(1, -1)
    out = generalised_advantages(rewards, values, mask, gamma, lam)
    kept = [(r, v) for r, v, m in tokens if m]
    assert out[mask].tolist() == pytest.approx(by_definition([r for r, _ in kept], [v for _, v in kept], gamma, lam), abs=1e-9)
    assert (out[~mask] == 0).all()


def test_lambda_may_differ_by_row() -> None:
    rewards, values = torch.tensor([[0.0, 1.0]] * 2), torch.tensor([[0.5, 0.25]] * 2)
    mask = torch.ones(2, 2, dtype=torch.bool)
    both = generalised_advantages(rewards, values, mask, 1.0, torch.tensor([0.0, 1.0]))
    assert both.tolist() == [[-0.25, 0.75], [0.5, 0.75]]


def test_nothing_follows_the_last_token_whatever_the_critic_says_there() -> None:
    rewards, values = torch.tensor([[2.0, 9.0]]), torch.tensor([[5.0, 1.0]])
    out = generalised_advantages(rewards, values, torch.tensor([[True, False]]), 0.9, 1.0)
    assert out.tolist() == [[-3.0, 0.0]]
