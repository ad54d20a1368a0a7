import pytest
import torch
from torch import nn

from lightrl.parts.moving_reference import MovingAverageReference, PeriodicReference
from lightrl.parts.reference import FrozenReference, Reference


def policy(value: float, dtype: torch.dtype = torch.float32) -> nn.Module:
    module = nn.Linear(1, 1, bias=False, dtype=dtype)
    nn.init.constant_(module.weight, value)
    return module


def weight(reference: Reference, module: nn.Module) -> float:
    with reference.anchor(module) as anchor:
        assert not anchor.training
        assert not any(p.requires_grad for p in anchor.parameters())
        return anchor.weight.item()


@pytest.mark.parametrize(
    ("reference", "after"),
    [
        (FrozenReference(), [1.0, 1.0, 1.0, 1.0]),
        (PeriodicReference(every=2), [1.0, 3.0, 3.0, 5.0]),
        (MovingAverageReference(mixture=0.5, every=2), [1.0, 2.0, 2.0, 3.5]),
    ],
    ids=repr,
)
def test_how_the_anchor_follows(reference: Reference, after: list[float]) -> None:
    module = policy(1.0)
    reference.build(module)
    found = []
    for step in range(1, 5):
        nn.init.constant_(module.weight, 1.0 + step)
        reference.after_step(module, step)
        found.append(weight(reference, module))
    assert found == after


def test_the_anchor_is_a_copy_and_the_policy_keeps_its_mode() -> None:
    module = policy(1.0).train()
    reference = FrozenReference()
    reference.build(module)
    nn.init.constant_(module.weight, 9.0)
    assert weight(reference, module) == 1.0
    assert module.training
    assert module.weight.requires_grad


def test_a_moving_average_of_bf16_weights_is_kept_in_float32() -> None:
    module = policy(1.0, torch.bfloat16)
    reference = MovingAverageReference(mixture=0.001, every=1)
    reference.build(module)
    nn.init.constant_(module.weight, 2.0)
    reference.after_step(module, 1)
    assert weight(reference, module) == pytest.approx(1.001)


@pytest.mark.parametrize("kind", [PeriodicReference, MovingAverageReference])
def test_a_reference_that_moves_survives_a_restart(kind: type) -> None:
    module, first, second = policy(1.0), kind(every=1), kind(every=1)
    first.build(module)
    second.build(module)
    nn.init.constant_(module.weight, 2.0)
    first.after_step(module, 1)
    second.load_state_dict(first.state_dict())
    assert weight(second, module) == weight(first, module) != 1.0


def test_a_frozen_reference_keeps_no_state() -> None:
    reference = FrozenReference()
    reference.build(policy(1.0))
    assert reference.state_dict() == {}


def test_a_reference_that_was_not_built_says_so() -> None:
    with pytest.raises(RuntimeError, match="not built"), FrozenReference().anchor(policy(1.0)):
        pass


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (PeriodicReference, {"every": 0}),
        (MovingAverageReference, {"mixture": 0.0}),
        (MovingAverageReference, {"mixture": 1.1}),
        (MovingAverageReference, {"every": 0}),
    ],
)
def test_impossible_settings_are_refused(kind: type, arguments: dict) -> None:
    with pytest.raises(ValueError, match=r"Reference needs (every >= 1|0 < mixture <= 1), got"):
        kind(**arguments)
