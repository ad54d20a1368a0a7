"""The entropy of logits and its gradient, against the formula as it is written."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lightrl.parts.output import entropies


def test_by_hand() -> None:
    """Probabilities 1/2, 1/4, 1/4 and 0, and a certain token."""
    logits = torch.tensor([[math.log(2), 0.0, 0.0, -math.inf], [0.0, -math.inf, -math.inf, -math.inf]], dtype=torch.float64)
    assert entropies(logits).tolist() == pytest.approx([1.5 * math.log(2), 0.0])


@given(rows=st.integers(1, 4), vocabulary=st.integers(2, 9), spread=st.sampled_from([0.1, 3.0, 400.0]), seed=st.integers(0, 99))
def test_value_and_gradient_are_those_of_autograd(rows: int, vocabulary: int, spread: float, seed: int) -> None:
    logits = spread * torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    weights = torch.arange(1.0, rows + 1, dtype=torch.float64)
    found = entropies(ours)
    logp = theirs.log_softmax(-1)
    expected = -(logp.exp() * logp).sum(-1)
    torch.testing.assert_close(found, expected)
    (found * weights).sum().backward()
    (expected * weights).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_tokens_that_are_never_sampled_have_no_gradient() -> None:
    logits = torch.tensor([[1.0, 0.0, -math.inf]], requires_grad=True)
    entropies(logits).sum().backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()
    assert logits.grad[0, 2] == 0
