import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lightrl.parts.clip import ClipScheme, DecoupledClip, NoClip, PolicyGradient, SymmetricClip

ALL = [DecoupledClip(), SymmetricClip(), NoClip(), PolicyGradient()]
every = pytest.mark.parametrize("part", ALL, ids=repr)


def surrogate(part: ClipScheme, log_ratio: list[float], advantage: list[float]):
    x = torch.tensor([log_ratio], dtype=torch.float64, requires_grad=True)
    a = torch.tensor([advantage], dtype=torch.float64)
    out = part.surrogate(x, a, torch.full_like(a, -1.0), torch.ones_like(a, dtype=torch.bool))
    return out, torch.autograd.grad(out.loss.sum(), x)[0]


@every
@given(advantage=st.floats(-3, 3))
def test_on_policy_every_scheme_has_the_policy_gradient(part: ClipScheme, advantage: float) -> None:
    _, gradient = surrogate(part, [0.0], [advantage])
    assert gradient.item() == pytest.approx(-advantage)


@every
@given(log_ratio=st.floats(-5, 5))
def test_without_advantage_a_silent_scheme_is_silent(part: ClipScheme, log_ratio: float) -> None:
    assert part.silent_without_advantage
    out, gradient = surrogate(part, [log_ratio], [0.0])
    assert out.loss.item() == gradient.item() == 0
    assert not out.clipped_low.item()
    assert not out.clipped_high.item()


@every
@given(log_ratio=st.floats(-5, 5), advantage=st.floats(-3, 3).filter(lambda a: abs(a) > 1e-3))
def test_clipped_means_the_gradient_is_gone(part: ClipScheme, log_ratio: float, advantage: float) -> None:
    out, gradient = surrogate(part, [log_ratio], [advantage])
    clipped = out.clipped_low.item() or out.clipped_high.item()
    assert (gradient.item() == 0) == clipped
    if not clipped:
        assert gradient.item() * advantage < 0


@given(log_ratio=st.floats(-5, 5), advantage=st.floats(-3, 3))
def test_the_clip_is_pessimistic(log_ratio: float, advantage: float) -> None:
    clipped, _ = surrogate(DecoupledClip(), [log_ratio], [advantage])
    plain, _ = surrogate(NoClip(), [log_ratio], [advantage])
    assert clipped.loss.item() >= plain.loss.item() - 1e-12


def test_symmetric_is_decoupled_with_equal_bounds() -> None:
    ratios, advantages = [-0.5, -0.1, 0.1, 0.5] * 2, [1.0] * 4 + [-1.0] * 4
    here, there = (surrogate(part, ratios, advantages) for part in (SymmetricClip(0.3), DecoupledClip(0.3, 0.3)))
    assert torch.equal(here[0].loss, there[0].loss)
    assert torch.equal(here[1], there[1])


@every
def test_what_is_masked_reaches_no_other_token(part: ClipScheme) -> None:
    x = torch.tensor([[0.1, torch.nan, 0.3]], requires_grad=True)
    a = torch.tensor([[1.0, torch.nan, -1.0]])
    mask = torch.tensor([[True, False, True]])
    loss = part.surrogate(x, a, torch.zeros(1, 3), mask).loss
    torch.where(mask, loss, 0.0).sum().backward()
    assert loss[mask].isfinite().all()
    assert x.grad[mask].isfinite().all()


@pytest.mark.parametrize(
    ("build", "got"),
    [
        (lambda: DecoupledClip(low=1.1), "low=1.1"),
        (lambda: DecoupledClip(low=-0.1), "low=-0.1"),
        (lambda: DecoupledClip(high=0), "high=0"),
        (lambda: SymmetricClip(1.5), "epsilon=1.5"),
        (lambda: SymmetricClip(0), "epsilon=0"),
    ],
)
def test_impossible_bounds_are_refused(build, got: str) -> None:
    with pytest.raises(ValueError, match=got):
        build()
