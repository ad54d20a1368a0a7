import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lightrl.ops.shift import at_tokens, predictors


def test_the_state_before_a_token_predicts_it() -> None:
    hidden = torch.arange(10.0).view(2, 5, 1)
    mask = torch.tensor([[False, False, True, True, False], [False, True, False, False, True]])
    assert predictors(hidden, mask)[:, 0].tolist() == [1, 2, 5, 8]


@given(st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=1, max_size=5))
def test_values_return_to_the_tokens_they_belong_to(rows: list[list[bool]]) -> None:
    mask = torch.tensor(rows)
    mask[:, 0] = False
    tokens = torch.arange(mask.numel(), dtype=torch.float32).view_as(mask) + 1
    # entry t of the hidden states carries the number of token t + 1, the one it predicts
    hidden = torch.roll(tokens, -1, dims=1)[..., None]
    assert torch.equal(at_tokens(predictors(hidden, mask)[:, 0], mask), torch.where(mask, tokens, 0.0))


def test_gradients_pass_both_ways() -> None:
    hidden = torch.randn(1, 3, 2, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[False, True, True]])
    assert torch.autograd.gradcheck(lambda h: at_tokens(predictors(h, mask).sum(-1), mask), (hidden,))


def test_a_first_token_has_no_predictor() -> None:
    with pytest.raises(ValueError, match="prompt"):
        predictors(torch.zeros(1, 2, 3), torch.tensor([[True, False]]))


def test_no_rows_and_no_selected_tokens() -> None:
    assert predictors(torch.zeros(0, 3, 2), torch.zeros(0, 3, dtype=torch.bool)).shape == (0, 2)
    assert predictors(torch.zeros(2, 3, 2), torch.zeros(2, 3, dtype=torch.bool)).shape == (0, 2)
