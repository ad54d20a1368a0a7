"""Value and gradient of clipped objectives, of the value loss and of the sequence ratio, by hand."""

import pytest
import torch

from lightrl.parts.aggregation import SequenceMean, SequenceSum
from lightrl.parts.clip import ClipScheme, DecoupledClip, NoClip, PolicyGradient, SymmetricClip
from lightrl.parts.critic import ValueHead
from lightrl.parts.ratio import SequenceRatio, TokenRatio
from lightrl.types import Denominators

PPO, HIGHER = SymmetricClip(0.2), DecoupledClip(0.2, 0.28)


def objective(clip: ClipScheme, ratio: float, advantage: float) -> tuple[float, float, bool, bool]:
    log_ratio = torch.tensor([[ratio]], dtype=torch.float64).log().requires_grad_()
    one = torch.ones(1, 1, dtype=torch.float64)
    out = clip.surrogate(log_ratio, advantage * one, 0 * one, one.bool())
    (gradient,) = torch.autograd.grad(out.loss.sum(), log_ratio)
    return -out.loss.item(), -gradient.item(), out.clipped_low.item(), out.clipped_high.item()


@pytest.mark.parametrize(
    ("clip", "advantage", "ratio", "value", "gradient", "clipped"),
    [
        (PPO, -2.1, 0.7, -1.68, 0.0, "low"),
        (PPO, -2.1, 0.9, -1.89, -1.89, ""),
        (PPO, -2.1, 1.3, -2.73, -2.73, ""),
        (PPO, 1.43, 1.35, 1.716, 0.0, "high"),
        (HIGHER, 1.43, 1.35, 1.8304, 0.0, "high"),
        (PPO, 1.43, 1.25, 1.716, 0.0, "high"),
        (HIGHER, 1.43, 1.25, 1.7875, 1.7875, ""),
        (PPO, 1.43, 0.7, 1.001, 1.001, ""),
        (PPO, -1.0, 5.0, -5.0, -5.0, ""),
        (NoClip(), -1.0, 5.0, -5.0, -5.0, ""),
        (PPO, 1.0, 2.0, 1.2, 0.0, "high"),
    ],
)
def test_objective(clip: ClipScheme, advantage: float, ratio: float, value: float, gradient: float, clipped: str) -> None:
    found_value, found_gradient, low, high = objective(clip, ratio, advantage)
    assert found_value == pytest.approx(value, abs=1e-5)
    assert found_gradient == pytest.approx(gradient, abs=1e-5)
    assert (low, high) == (clipped == "low", clipped == "high")


def test_below_the_lower_bound_nothing_pulls_back() -> None:
    """A popular explanation takes -1.47 and lets the ratio be pushed up: the minimum is -1.68 and pushes nowhere."""
    value, gradient, *_ = objective(PPO, 0.7, -2.1)
    assert value != pytest.approx(-1.47, abs=1e-2)
    assert gradient == 0


def test_plain_policy_gradient() -> None:
    logprobs = torch.tensor([[-1.0, -2.0]], requires_grad=True)
    old = torch.tensor([[-1.5, -0.2]])
    log_ratio = TokenRatio().log_ratio(logprobs, old, torch.ones(1, 2, dtype=torch.bool))
    loss = PolicyGradient().surrogate(log_ratio, torch.full((1, 2), 3.0), old, torch.ones(1, 2, dtype=torch.bool)).loss
    assert loss.sum().item() == pytest.approx(9.0)
    loss.sum().backward()
    assert logprobs.grad.tolist() == [[-3, -3]]


@pytest.mark.parametrize(("clip", "loss", "gradient"), [(0.2, 0.045, 0.0), (None, 0.005, -0.1)])
def test_value_loss(clip: float | None, loss: float, gradient: float) -> None:
    value = torch.tensor([[0.9]], requires_grad=True)
    out = ValueHead(clip=clip).loss(value, torch.tensor([[0.5]]), torch.tensor([[1.0]])).value
    out.sum().backward()
    assert out.item() == pytest.approx(loss, abs=1e-5)
    assert value.grad.item() == pytest.approx(gradient, abs=1e-5)


OLD = torch.tensor([[-1.0, -2.0, -0.5, -1.5]], dtype=torch.float64)
NEW = OLD + torch.tensor([[0.02, -0.01, 0.03, 0.0]], dtype=torch.float64)
ALL = torch.ones(1, 4, dtype=torch.bool)


def test_sequence_ratio_and_token_ratios() -> None:
    assert SequenceRatio().log_ratio(NEW, OLD, ALL).exp()[0].tolist() == pytest.approx([1.010050] * 4, abs=1e-5)
    assert TokenRatio().log_ratio(NEW, OLD, ALL).exp()[0].tolist() == pytest.approx([1.020201, 0.99005, 1.030455, 1], abs=1e-5)
    worked = torch.tensor([[1.1, 0.95, 1.3, 0.9]]).log()
    assert SequenceRatio().log_ratio(worked, 0 * worked, ALL).exp()[0, 0].item() == pytest.approx(1.051539, abs=1e-5)


def test_the_sequence_ratio_is_a_geometric_mean_not_a_product() -> None:
    assert SequenceRatio().log_ratio(NEW, OLD, ALL).exp()[0, 0].item() != pytest.approx(1.040811, abs=1e-3)


def sequence_gradient(aggregation) -> list[float]:
    new = NEW.clone().requires_grad_()
    log_ratio = SequenceRatio().log_ratio(new, OLD, ALL)
    loss = NoClip().surrogate(log_ratio, torch.full((1, 4), 1.5, dtype=torch.float64), OLD, ALL).loss
    weights = aggregation.weights(ALL.double(), torch.zeros(1, dtype=torch.long), Denominators(tokens=4, rows=1, all_rows=1, prompts=1))
    (gradient,) = torch.autograd.grad((loss * weights).sum(), new)
    return (-gradient)[0].tolist()


def test_each_token_receives_the_rows_gradient_divided_by_its_length() -> None:
    gradient = sequence_gradient(SequenceMean())
    assert gradient == pytest.approx([0.378769] * 4, abs=1e-5)
    # a ratio that is not detached from its own straight-through form doubles it
    assert gradient != pytest.approx([0.757538] * 4, abs=1e-3)


def test_summing_tokens_multiplies_a_row_constant_by_its_length() -> None:
    """Why an algorithm with a sequence ratio refuses `SequenceSum`."""
    assert sequence_gradient(SequenceSum()) == pytest.approx([1.515075] * 4, abs=1e-5)


def test_a_sequence_ratio_of_one_percent_is_outside_gspos_bounds() -> None:
    log_ratio = SequenceRatio().log_ratio(NEW, OLD, ALL)
    out = DecoupledClip(3e-4, 4e-4).surrogate(log_ratio, torch.full((1, 4), 1.5), OLD, ALL)
    assert out.clipped_high.all()
