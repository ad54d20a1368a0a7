import pytest
import torch

from lightrl.parts.kl import AdaptiveKL, KLPenalty


@pytest.mark.parametrize(
    ("arguments", "needs"),
    [
        ({}, set()),
        ({"loss_coefficient": 0.1}, {"ref_logprobs"}),
        ({"reward_coefficient": 0.1}, {"ref_logprobs"}),
        ({"loss_coefficient": 0.1, "against": "old"}, set()),
    ],
)
def test_a_reference_is_needed_only_where_it_is_used(arguments: dict, needs: set[str]) -> None:
    assert KLPenalty(**arguments).needs == needs


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"loss_coefficient": -1}, "loss_coefficient >= 0"),
        ({"reward_coefficient": 0.1, "against": "old"}, "KL of the old policy against itself is 0"),
        ({"loss_coefficient": 0.1, "against": "old", "off_policy": True}, "set off_policy to false with against: old"),
        ({"controller": AdaptiveKL()}, "no coefficient for it to move"),
        ({"estimator": "k4"}, "estimator to be 'k1' or 'k2' or .*, got estimator='k4'"),
    ],
)
def test_penalties_that_make_no_sense_are_refused(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        KLPenalty(**arguments)


@pytest.mark.parametrize(("kl", "factor"), [(6.0, 1.0), (6.6, 1.01), (100.0, 1.02), (0.0, 0.98)])
def test_the_controller_steers_towards_its_target(kl: float, factor: float) -> None:
    assert AdaptiveKL(target=6, horizon=1000).factor(kl, rows=100) == pytest.approx(factor)


def test_one_rollout_moves_the_coefficient_by_a_fifth_at_most() -> None:
    assert AdaptiveKL(target=1, horizon=10).factor(kl=0.0, rows=1_000_000) == pytest.approx(0.8)


@pytest.mark.parametrize(("target", "horizon"), [(0, 1), (1, 0), (-1, 10)])
def test_the_controller_needs_a_target_and_a_horizon(target: float, horizon: float) -> None:
    with pytest.raises(ValueError, match=r"AdaptiveKL needs (target|horizon) > 0, got"):
        AdaptiveKL(target, horizon)


def test_the_controller_moves_both_coefficients_and_they_survive_a_restart() -> None:
    first, second = (KLPenalty(loss_coefficient=0.1, reward_coefficient=0.2, controller=AdaptiveKL(1, 100)) for _ in range(2))
    for kl in (3.0, 0.2, 5.0):
        first.observe(kl, rows=64)
    assert first.reward_coefficient == pytest.approx(0.2 * 1.128 * 0.872 * 1.128)
    second.load_state_dict(first.state_dict())
    assert (second.loss_coefficient, second.reward_coefficient) == (first.loss_coefficient, first.reward_coefficient)


def test_without_a_controller_the_config_decides_the_coefficient() -> None:
    fixed = KLPenalty(loss_coefficient=0.5)
    fixed.observe(kl=100.0, rows=64)
    fixed.load_state_dict(KLPenalty(loss_coefficient=0.1).state_dict())
    assert fixed.loss_coefficient == 0.5


def test_the_off_policy_form_multiplies_by_the_ratio() -> None:
    new, other, log_ratio = torch.tensor([[-1.0]]), torch.tensor([[-1.5]]), torch.tensor([[0.3]])
    plain, corrected = (KLPenalty("k1", loss_coefficient=1, off_policy=o).penalty(new, other, log_ratio) for o in (False, True))
    assert corrected.item() == pytest.approx(plain.item() * 1.349859, abs=1e-5)


def test_against_the_old_policy_it_is_the_kl_of_the_old_policy() -> None:
    """p = .5, old = .25: KL(old || pi) by k3 is 2 - 1 - log 2; KL(pi || reference) of the same numbers 1/2 - 1 + log 2."""
    new, other = torch.tensor([[0.5]]).log(), torch.tensor([[0.25]]).log()
    found = [KLPenalty("k3", loss_coefficient=1, against=a).penalty(new, other, 0 * new).item() for a in ("old", "reference")]
    assert found == pytest.approx([0.306853, 0.193147], abs=1e-5)


def test_only_a_controller_wants_the_kl_measured() -> None:
    assert not KLPenalty(loss_coefficient=1).observes
    steered = KLPenalty(loss_coefficient=1, controller=AdaptiveKL())
    assert steered.observes
    assert steered.unit == "row"
