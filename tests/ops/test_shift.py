import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from lightrl.ops.shift import Selected

CPU = torch.device("cpu")


def selected(mask: Tensor) -> Selected:
    return Selected.of(mask, CPU)


def test_the_state_before_a_token_predicts_it() -> None:
    hidden = torch.arange(10.0).view(2, 5, 1)
    mask = torch.tensor([[False, False, True, True, False], [False, True, False, False, True]])
    assert selected(mask).predictors(hidden)[:, 0].tolist() == [1, 2, 5, 8]
    assert selected(mask).tokens(hidden[..., 0]).tolist() == [2, 3, 6, 9]


def test_a_row_needs_the_tokens_in_front_of_its_last_selected_one() -> None:
    mask = torch.tensor([[False, True, True, False], [False, False, False, True], [False, False, False, False]])
    assert selected(mask).lengths() == [2, 3, 0]


@given(st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=1, max_size=5))
def test_values_return_to_the_tokens_they_belong_to(rows: list[list[bool]]) -> None:
    mask = torch.tensor(rows)
    mask[:, 0] = False
    tokens = torch.arange(mask.numel(), dtype=torch.float32).view_as(mask) + 1
    # entry t of the hidden states carries the number of token t + 1, the one it predicts
    hidden = torch.roll(tokens, -1, dims=1)[..., None]
    found = selected(mask)
    assert torch.equal(found.at_tokens(found.predictors(hidden)[:, 0]), torch.where(mask, tokens, 0.0))


def test_gradients_pass_both_ways() -> None:
    hidden = torch.randn(1, 3, 2, dtype=torch.float64, requires_grad=True)
    found = selected(torch.tensor([[False, True, True]]))
    assert torch.autograd.gradcheck(lambda h: found.at_tokens(found.predictors(h).sum(-1)), (hidden,))


def test_a_first_token_has_no_predictor() -> None:
    with pytest.raises(ValueError, match="prompt"):
        selected(torch.tensor([[True, False]]))


def test_no_rows_and_no_selected_tokens() -> None:
    assert selected(torch.zeros(0, 3, dtype=torch.bool)).predictors(torch.zeros(0, 3, 2)).shape == (0, 2)
    assert selected(torch.zeros(2, 3, dtype=torch.bool)).predictors(torch.zeros(2, 3, 2)).shape == (0, 2)
