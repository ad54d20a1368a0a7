import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lightrl_workshop.experience import experience
from torch import nn

from lightrl.parts.aggregation import SequenceMean, TokenMean
from lightrl.parts.critic import ValueHead


class Trunk(nn.Module):
    hidden_size = 6

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6, dtype=dtype)


@pytest.mark.parametrize("detach", [True, False])
def test_a_detached_head_leaves_the_trunk_alone(detach: bool) -> None:
    trunk = Trunk()
    head = ValueHead(detach=detach).build(trunk)
    values = head(torch.zeros(2, 3, dtype=torch.long), trunk.layer(torch.randn(2, 3, 6)))
    assert values.shape == (2, 3)
    values.sum().backward()
    assert (trunk.layer.weight.grad is None) == detach
    assert all(p.grad is not None for p in head.parameters())


def test_values_of_a_bf16_trunk_are_float32() -> None:
    trunk = Trunk(torch.bfloat16)
    head = ValueHead().build(trunk)
    assert next(head.parameters()).dtype == torch.bfloat16
    assert head(torch.zeros(1, 1, dtype=torch.long), torch.randn(1, 1, 6, dtype=torch.bfloat16)).dtype == torch.float32


@given(st.floats(-3, 3), st.floats(-3, 3), st.floats(-3, 3), st.floats(0.05, 1))
def test_the_clipped_loss_is_never_below_the_plain_one(value: float, old: float, target: float, clip: float) -> None:
    tensors = [torch.tensor([[x]], dtype=torch.float64) for x in (value, old, target)]
    clipped, plain = (ValueHead(clip=c).loss(*tensors).value.item() for c in (clip, None))
    assert clipped >= plain
    if abs(value - old) <= clip:
        assert clipped == pytest.approx(plain)


def test_the_critic_is_fitted_on_sampled_tokens_of_scorable_rows_even_if_they_are_filtered() -> None:
    rows = experience([1.0, 0.0], lengths=[2, 1], scorable=[True, False])
    rows.token_weight.zero_()
    assert ValueHead().weights(rows).tolist() == [[0, 0, 1, 1], [0, 0, 0, 0]]


def test_the_value_loss_has_its_own_aggregation() -> None:
    assert isinstance(ValueHead().aggregation, TokenMean)
    assert isinstance(ValueHead(aggregation=SequenceMean()).aggregation, SequenceMean)


def test_it_reports_how_often_the_clip_decided() -> None:
    values, old, returns = torch.tensor([[0.9, 0.55]]), torch.tensor([[0.5, 0.5]]), torch.ones(1, 2)
    assert ValueHead(clip=0.2).loss(values, old, returns).statistics["value_clip_ratio"].tolist() == [[1, 0]]
    assert ValueHead(clip=None).loss(values, old, returns).statistics == {}


@pytest.mark.parametrize("arguments", [{"warmup_rollouts": -1}, {"extra_epochs": -1}])
def test_negative_numbers_of_passes_are_refused(arguments: dict) -> None:
    with pytest.raises(ValueError, match=r"ValueHead needs (warmup_rollouts|extra_epochs) >= 0, got"):
        ValueHead(**arguments)


@pytest.mark.parametrize("arguments", [{"coefficient": -0.1}, {"clip": 0}, {"clip": -1.0}])
def test_impossible_settings_are_refused(arguments: dict) -> None:
    with pytest.raises(ValueError, match=r"ValueHead needs (coefficient >= 0|clip > 0 or null), got"):
        ValueHead(**arguments)
