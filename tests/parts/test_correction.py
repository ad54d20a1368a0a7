import pytest
import torch

from lightrl.parts.base import unpack
from lightrl.parts.correction import MaskedImportance, RolloutCorrection, TruncatedImportance
from lightrl.parts.kl import LIMIT

ALL = [TruncatedImportance(), TruncatedImportance(level="sequence"), MaskedImportance(), MaskedImportance(level="sequence")]


def weights_of(part: RolloutCorrection, *arguments: torch.Tensor) -> torch.Tensor:
    return unpack(part.weights(*arguments))[0]


every = pytest.mark.parametrize("part", ALL, ids=repr)


@every
def test_where_engine_and_trainer_agree_nothing_changes(part: RolloutCorrection) -> None:
    logprobs = torch.tensor([[-0.5, -3.0]])
    assert weights_of(part, logprobs, logprobs, torch.ones(1, 2, dtype=torch.bool)).tolist() == [[1, 1]]


@every
def test_weights_carry_no_gradient(part: RolloutCorrection) -> None:
    old = torch.tensor([[-1.0]], requires_grad=True)
    assert not weights_of(part, old, torch.tensor([[-1.1]]), torch.ones(1, 1, dtype=torch.bool)).requires_grad


@every
def test_masked_tokens_have_no_influence(part: RolloutCorrection) -> None:
    mask = torch.tensor([[True, False, True], [False, False, False]])
    clean = torch.tensor([[-1.0, 0.0, -2.0], [0.0, 0.0, 0.0]])
    spoilt = torch.where(mask, clean, torch.nan)
    rollout = torch.tensor([[-1.1, 0.0, -1.8], [0.0, 0.0, 0.0]])
    assert torch.equal(weights_of(part, spoilt, rollout, mask)[mask], weights_of(part, clean, rollout, mask)[mask])


def test_a_sequence_weight_is_the_product_of_its_tokens() -> None:
    old, rollout = torch.tensor([[-1.0, -2.0]]), torch.tensor([[-1.1, -2.2]])
    mask = torch.ones(1, 2, dtype=torch.bool)
    tokens, row = (weights_of(TruncatedImportance(1e9, level), old, rollout, mask) for level in ("token", "sequence"))
    assert row[0].tolist() == pytest.approx([tokens.prod().item()] * 2)


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_nothing_overflows(level: str) -> None:
    far, mask = torch.full((1, 300), 1e4), torch.ones(1, 300, dtype=torch.bool)
    assert weights_of(TruncatedImportance(cap=1e30, level=level), far, 0 * far, mask).max().item() == pytest.approx(
        torch.e**LIMIT, rel=1e-4
    )


@pytest.mark.parametrize(
    ("build", "got"), [(lambda: TruncatedImportance(0), "cap > 0, got cap=0"), (lambda: MaskedImportance(2, 1), "low=2, high=1")]
)
def test_empty_bands_are_refused(build, got: str) -> None:
    with pytest.raises(ValueError, match=got):
        build()
