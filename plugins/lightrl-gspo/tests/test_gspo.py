"""The sequence's ratio and its token form: values, gradients, and the mistakes that are made with them."""

import warnings

import pytest
import torch
from lightrl_gspo import GSPO, LUSPO, GSPOToken, SequenceTokenRatio

from lightrl import Aggregation, DecoupledClip, GroupNormalized, SequenceMean, SequenceRatio, TokenMean
from lightrl.registry.classes import registry
from lightrl.types import Denominators

DIFFERENCE = torch.tensor([[1.020201, 0.99005, 1.030455, 1.0]], dtype=torch.float64).log()
MASK = torch.ones(1, 4, dtype=torch.bool)
RATIOS = [SequenceRatio(), SequenceTokenRatio()]
WIDE = DecoupledClip(low=0.5, high=0.5)


def objective(ratio: SequenceRatio, advantages: torch.Tensor, clip: DecoupledClip = WIDE) -> tuple[float, list[float]]:
    """Value of J for one row, and dJ / d log pi of each token."""
    old = torch.tensor([[-1.0, -2.0, -0.5, -0.3]], dtype=torch.float64)
    new = (old + DIFFERENCE).requires_grad_()
    weights = SequenceMean().weights(MASK.double(), torch.zeros(1), Denominators(4, 1, 1, 1))
    value = -(clip.surrogate(ratio.log_ratio(new, old, MASK), advantages, old, MASK).loss * weights).sum()
    (gradient,) = torch.autograd.grad(value, new)
    return value.item(), gradient[0].tolist()


@pytest.mark.parametrize("ratio", RATIOS, ids=repr)
def test_value_and_gradient(ratio: SequenceRatio) -> None:
    value, gradient = objective(ratio, torch.full((1, 4), 1.5, dtype=torch.float64))
    assert value == pytest.approx(1.5 * 1.01005, abs=1e-5)
    assert gradient == pytest.approx([0.378769] * 4, abs=1e-5)


@pytest.mark.parametrize("ratio", RATIOS, ids=repr)
def test_the_papers_clip_takes_the_whole_row(ratio: SequenceRatio) -> None:
    value, gradient = objective(ratio, torch.full((1, 4), 1.5, dtype=torch.float64), GSPO().clip)
    assert value == pytest.approx(1.5 * 1.0004)
    assert gradient == [0, 0, 0, 0]


@pytest.mark.parametrize("ratio", RATIOS, ids=repr)
def test_the_geometric_mean_of_the_token_ratios(ratio: SequenceRatio) -> None:
    tokens = torch.tensor([[1.10, 0.95, 1.30, 0.90]]).log()
    assert ratio.log_ratio(tokens, 0 * tokens, MASK).exp()[0].tolist() == pytest.approx([1.051539] * 4, abs=1e-5)


@pytest.mark.parametrize("ratio", RATIOS, ids=repr)
def test_trap_it_is_not_the_product(ratio: SequenceRatio) -> None:
    found = ratio.log_ratio(DIFFERENCE, 0 * DIFFERENCE, MASK).exp()[0, 0].item()
    assert found == pytest.approx(1.010050, abs=1e-5)
    assert found != pytest.approx(1.040811, abs=1e-3)


@pytest.mark.parametrize("ratio", RATIOS, ids=repr)
def test_trap_tokens_are_averaged_and_the_value_is_detached(ratio: SequenceRatio) -> None:
    """Tokens added up would give 1.515, a sequence value with gradient .757."""
    _, gradient = objective(ratio, torch.full((1, 4), 1.5, dtype=torch.float64))
    assert gradient[0] != pytest.approx(1.515075, abs=0.1)
    assert gradient[0] != pytest.approx(0.757538, abs=0.1)


def test_advantages_that_differ_between_tokens_reach_their_tokens() -> None:
    advantages = torch.tensor([[1.0, 2.0, -1.0, 0.0]], dtype=torch.float64)
    _, of_tokens = objective(SequenceTokenRatio(), advantages)
    assert of_tokens == pytest.approx([1.01005 * a / 4 for a in (1, 2, -1, 0)], abs=1e-5)
    _, shared = objective(SequenceRatio(), advantages)
    assert shared == pytest.approx([1.01005 * 2 / 16] * 4, abs=1e-5)


@pytest.mark.parametrize("ratio", RATIOS, ids=repr)
def test_masked_tokens_are_not_part_of_the_mean(ratio: SequenceRatio) -> None:
    mask = torch.tensor([[True, True, False, False]])
    spoilt = torch.cat([DIFFERENCE[:, :2], torch.full((1, 2), 7.0)], dim=1)
    found = ratio.log_ratio(spoilt, 0 * spoilt, mask)[0, :2]
    assert found.tolist() == pytest.approx([DIFFERENCE[0, :2].mean().item()] * 2)


def test_the_defaults_are_the_papers() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gspo, token = GSPO(), GSPOToken()
    for algorithm in (gspo, token):
        assert (algorithm.clip.low, algorithm.clip.high) == (3e-4, 4e-4)
        assert type(algorithm.aggregation) is SequenceMean
        assert type(algorithm.advantage) is GroupNormalized
        assert algorithm.kl is None
        assert algorithm.steps_per_rollout == 4
        assert algorithm.needs == frozenset()
    assert type(gspo.ratio) is SequenceRatio
    assert type(token.ratio) is SequenceTokenRatio


@pytest.mark.parametrize("algorithm", [GSPO, GSPOToken])
def test_an_aggregation_that_weighs_rows_by_their_length_is_refused(algorithm: type[GSPO]) -> None:
    with pytest.raises(ValueError, match="TokenMean"):
        algorithm(aggregation=TokenMean())


@pytest.mark.parametrize(("kind", "cls"), [("algorithm", GSPO), ("algorithm", GSPOToken), ("importance ratio", SequenceTokenRatio)])
def test_the_hooks_register_it(kind: str, cls: type) -> None:
    assert registry().resolve(kind, f"lightrl-gspo:{cls.__name__}") is cls


def test_luspo_is_gspo_with_each_loss_times_its_length() -> None:
    """Rows of 4 and 2 tokens: the mean of 4 * 1.5 * 1.01005 and 2 * -1.0050118."""
    old = torch.tensor([[-1.0, -2.0, -0.5, -0.3], [-1.0, -2.0, 0.0, 0.0]], dtype=torch.float64)
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    advantages = torch.tensor([[1.5] * 4, [-1.0] * 4], dtype=torch.float64)

    def value_and_gradient(aggregation: Aggregation) -> tuple[float, torch.Tensor]:
        new = (old + torch.cat([DIFFERENCE, DIFFERENCE])).requires_grad_()
        found = WIDE.surrogate(SequenceRatio().log_ratio(new, old, mask), advantages, old, mask)
        weights = aggregation.weights(mask.double(), torch.zeros(2), Denominators(6, 2, 2, 1))
        value = -torch.where(mask, found.loss * weights, 0.0).sum()
        (gradient,) = torch.autograd.grad(value, new)
        return value.item(), gradient

    value, gradient = value_and_gradient(LUSPO().aggregation)
    assert value == pytest.approx((4 * 1.5 * 1.010050 - 2 * 1.0050118) / 2, abs=1e-5)
    assert torch.allclose(gradient, value_and_gradient(SequenceMean())[1] * torch.tensor([[4.0], [2.0]]))
    assert (LUSPO().clip.low, LUSPO().clip.high, LUSPO().minibatches) == (2e-3, 2.5e-3, 4)
