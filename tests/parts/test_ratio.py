import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lightrl.parts.ratio import SequenceRatio, TokenRatio

MASK = torch.tensor([[False, True, False, True], [False, False, False, False]])
NEW = torch.tensor([[torch.nan, -1.0, torch.nan, -2.0], [torch.nan] * 4])
OLD = torch.tensor([[torch.nan, -1.2, 5.0, -2.4], [torch.inf] * 4])


def test_token_ratio() -> None:
    assert TokenRatio().log_ratio(NEW, OLD, MASK)[MASK].tolist() == pytest.approx([0.2, 0.4])
    assert not TokenRatio().row_constant


def test_sequence_ratio_is_the_mean_over_tokens_that_carry_a_loss() -> None:
    new = NEW.clone().requires_grad_()
    out = SequenceRatio().log_ratio(new, OLD, MASK)
    assert out[0].tolist() == pytest.approx([0.3] * 4)
    assert out[1].tolist() == [0.0] * 4
    out.sum().backward()
    assert new.grad[0].tolist() == pytest.approx([0, 2, 0, 2])
    assert (new.grad[1] == 0).all()
    assert SequenceRatio().row_constant


@given(st.lists(st.floats(-3, 0), min_size=1, max_size=8), st.integers(0, 4))
def test_sequence_ratio_ignores_padding(values: list[float], padding: int) -> None:
    new = torch.tensor([values], dtype=torch.float64)
    mask = torch.ones_like(new, dtype=torch.bool)
    wide = [torch.nn.functional.pad(t, (0, padding)) for t in (new, mask)]
    short = SequenceRatio().log_ratio(new, 0 * new, mask)
    assert SequenceRatio().log_ratio(wide[0], 0 * wide[0], wide[1])[0, 0].item() == pytest.approx(short[0, 0].item())
