"""Surrogates of the zoo at hand-computed points: values, gradients, and what the field gets wrong."""

import math

import pytest
import torch
from lightrl_zoo import CappedImportance, GammaWeight, GeometricMeanClip, SoftGate

from lightrl import ClipScheme, SequenceMean, SymmetricClip
from lightrl.types import Denominators


def at(clip: ClipScheme, log_ratio: list[float], advantage: float | list[float], old: float = 0.0) -> tuple:
    """Loss and gradient with respect to the log-probs, of one row."""
    logs = torch.tensor([log_ratio], dtype=torch.float64, requires_grad=True)
    advantages = torch.as_tensor(advantage, dtype=torch.float64).expand(logs.shape)
    out = clip.surrogate(logs, advantages, torch.full_like(logs, old).detach(), torch.ones_like(logs, dtype=torch.bool))
    (gradient,) = torch.autograd.grad(out.loss.sum(), logs)
    return out, out.loss.detach()[0].tolist(), gradient[0].tolist()


LOG2 = math.log(2)


def test_cispo_caps_the_weight_and_keeps_the_gradient() -> None:
    out, loss, gradient = at(CappedImportance(high=0.2), [LOG2], 1.0, old=math.log(0.1))
    assert gradient == pytest.approx([-1.2], abs=1e-6)
    assert loss == pytest.approx([1.931325], abs=1e-6)  # -1.2 log(0.2)
    assert not out.clipped_high.any()
    assert out.shares["cispo/capped"].item() == 1


def test_where_ppo_would_drop_the_token() -> None:
    assert at(SymmetricClip(0.2), [LOG2], 1.0)[2] == [0.0]
    assert at(CappedImportance(mask_high=0.2), [LOG2], 1.0)[2] == [0.0]
    assert at(CappedImportance(mask_low=0.2), [-LOG2], -1.0)[2] == [0.0]
    assert at(CappedImportance(mask_high=0.2), [LOG2], -1.0)[2] == pytest.approx([1.2])


def test_cispo_has_no_lower_bound_unless_given_one() -> None:
    assert at(CappedImportance(), [-LOG2], 1.0)[2] == pytest.approx([-0.5])
    assert at(CappedImportance(low=0.2), [-LOG2], 1.0)[2] == pytest.approx([-0.8])


def test_the_cap_is_above_one_and_not_an_absolute_number() -> None:
    """TRL's epsilon_high is the cap itself (min(r, 5)): with the same number the weight is one smaller."""
    assert at(CappedImportance(high=5.0), [math.log(8)], 1.0)[2] == pytest.approx([-6.0])


def test_the_weight_carries_no_gradient() -> None:
    """Below the cap, differentiating the weight too would add r A log pi to the gradient."""
    gradient = at(CappedImportance(high=5.0), [LOG2], 1.0, old=-3.0)[2]
    assert gradient == pytest.approx([-2.0])
    assert gradient != pytest.approx([-2.0 - 2.0 * (LOG2 - 3.0)])


@pytest.mark.parametrize(("advantage", "ratio", "slope"), [(1.0, 1.0, 1.0), (1.0, 1.5, 1.410022), (-1.0, 1.5, 1.401210), (-1.0, 1.0, 1.0)])
def test_sapo_gate(advantage: float, ratio: float, slope: float) -> None:
    out, loss, gradient = at(SoftGate(1.0, 1.05), [math.log(ratio)], advantage)
    assert gradient == pytest.approx([-advantage * slope], abs=1e-5)
    tau = 1.0 if advantage > 0 else 1.05
    assert loss == pytest.approx([-advantage * 4 / tau / (1 + math.exp(-tau * (ratio - 1)))], abs=1e-6)
    assert out.statistics["sapo/gate"].item() * ratio == pytest.approx(slope, abs=1e-5)


def test_sapo_value_at_one_is_offset() -> None:
    assert at(SoftGate(), [0.0], 1.0)[1] == pytest.approx([-2.0])


LOGS = [0.1, -0.6, 0.7, 0.0]


@pytest.mark.parametrize(
    ("advantage", "objective", "gradient"),
    [(1.0, 0.97531, [0.243827, 0.243827, 0.0, 0.243827]), (-1.0, -1.105171, [-0.276293, 0.0, -0.276293, -0.276293])],
)
def test_gmpo_by_hand(advantage: float, objective: float, gradient: list[float]) -> None:
    logs = torch.tensor([LOGS], dtype=torch.float64, requires_grad=True)
    everywhere = torch.ones(1, 4, dtype=torch.bool)
    out = GeometricMeanClip(0.4).surrogate(logs, torch.full((1, 4), advantage).double(), torch.zeros(1, 4), everywhere)
    weights = SequenceMean().weights(everywhere.double(), torch.zeros(1, dtype=torch.long), Denominators(4, 1, 1, 1))
    total = (out.loss * weights).sum()
    total.backward()
    assert -total.item() == pytest.approx(objective, abs=1e-5)
    assert (-logs.grad)[0].tolist() == pytest.approx(gradient, abs=1e-5)
    assert out.clipped_high[0].tolist() == [False, False, advantage > 0, False]
    assert out.clipped_low[0].tolist() == [False, advantage < 0, False, False]


def test_gmpo_clips_before_it_averages() -> None:
    """The mean log-ratio, 0.05, is inside the bounds: clipping after averaging would give exp(.05) = 1.0513."""
    assert -at(GeometricMeanClip(0.4), LOGS, 1.0)[1][0] != pytest.approx(1.051271, abs=1e-3)


def test_gmpo_has_a_bound_for_each_direction() -> None:
    """Means of min(l, 0.2), (0.1 - 0.6 + 0.2 + 0) / 4, and of max(l, -0.5), (0.1 - 0.5 + 0.7 + 0) / 4."""
    clip = GeometricMeanClip(low=0.5, high=0.2)
    assert -at(clip, LOGS, 1.0)[1][0] == pytest.approx(math.exp(-0.075))
    assert at(clip, LOGS, -1.0)[1][0] == pytest.approx(math.exp(0.075))


def test_gmpo_without_an_advantage_has_no_gradient() -> None:
    _, loss, gradient = at(GeometricMeanClip(0.4), LOGS, 0.0)
    assert loss == gradient == [0.0] * 4


def test_gmpo_averages_over_the_tokens_that_carry_a_loss() -> None:
    logs = torch.tensor([[*LOGS, 9.0]], dtype=torch.float64)
    mask = torch.tensor([[True] * 4 + [False]])
    out = GeometricMeanClip(0.4).surrogate(logs, torch.ones(1, 5).double(), torch.zeros(1, 5), mask)
    assert out.loss[0, 0].item() == pytest.approx(-0.97531, abs=1e-5)


@pytest.mark.parametrize(
    ("advantage", "ratio", "phi"),
    [
        (1.0, 1.0, 1.0),
        (-1.0, 1.0, 1.0),
        (1.0, 2.0, 0.199148),  # 2^2 e^(3 - 6)
        (1.0, 0.5, 1.120422),  # 0.5^2 e^(3 - 1.5)
        (-1.0, 2.0, 1.082682),  # 2^3 e^(2 - 4)
        (-1.0, 0.5, 0.339785),  # 0.5^3 e^(2 - 1)
    ],
)
def test_vespo_by_hand(advantage: float, ratio: float, phi: float) -> None:
    """The ratio of the completion is a product: that of two tokens, one of 4 and one of ratio / 4."""
    logs = [math.log(4), math.log(ratio / 4)]
    out, loss, gradient = at(GammaWeight(), logs, advantage, old=-1.0)
    assert gradient == pytest.approx([-advantage * phi] * 2, abs=1e-6)
    assert loss == pytest.approx([-advantage * phi * (log - 1.0) for log in logs], abs=1e-5)
    assert out.statistics["vespo/phi"][0].tolist() == pytest.approx([phi] * 2, abs=1e-6)
    assert not out.clipped_low.any()
    assert not out.clipped_high.any()


def test_vespo_does_not_divide_by_the_length() -> None:
    """Four tokens of 1.2 are a completion of 1.2^4 = 2.0736: 2.0736^2 e^(3 - 3 x 2.0736) = 0.171662, and not 1.2^2 e^-0.6 = 0.790288."""
    assert at(GammaWeight(), [math.log(1.2)] * 4, 1.0)[2] == pytest.approx([-0.171662] * 4, abs=1e-6)


def test_vespo_takes_the_sign_of_each_token() -> None:
    assert at(GammaWeight(), [LOG2, 0.0], [1.0, -1.0])[2] == pytest.approx([-0.199148, 1.082682], abs=1e-6)


@pytest.mark.parametrize("log", [-400.0, 400.0])
def test_vespo_of_a_row_far_away_is_silent(log: float) -> None:
    """Also where the ratio itself is infinite in 32 bits."""
    logs = torch.full((1, 3), log, requires_grad=True)
    out = GammaWeight().surrogate(logs, torch.ones(1, 3), torch.zeros(1, 3), torch.ones(1, 3, dtype=torch.bool))
    out.loss.sum().backward()
    assert out.loss.abs().max() == logs.grad.abs().max() == 0


def test_vespo_multiplies_only_tokens_that_carry_a_loss() -> None:
    logs, mask = torch.tensor([[LOG2, 5.0, 0.0]]), torch.tensor([[True, False, True]])
    out = GammaWeight().surrogate(logs, torch.ones(1, 3), torch.zeros(1, 3), mask)
    assert out.statistics["vespo/phi"][0, 0].item() == pytest.approx(0.199148, abs=1e-6)


@pytest.mark.parametrize(
    "build",
    [
        lambda: CappedImportance(high=0),
        lambda: CappedImportance(low=1.5),
        lambda: CappedImportance(mask_high=0),
        lambda: CappedImportance(mask_low=1.0),
        lambda: SoftGate(positive=0),
        lambda: SoftGate(negative=-1),
        lambda: GammaWeight(k_positive=0),
        lambda: GammaWeight(lam_negative=-1),
        lambda: GeometricMeanClip(low=0),
    ],
)
def test_impossible_bounds_are_refused(build) -> None:
    with pytest.raises(ValueError, match=r"needs .* got "):
        build()
