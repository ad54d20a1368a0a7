"""Weights in one block of bytes come out as they went in."""

from __future__ import annotations

import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from lightrl import PackedWeights

DTYPES = [torch.float32, torch.bfloat16, torch.float64, torch.uint8, torch.bool, torch.int64]


@st.composite
def tensors(draw: st.DrawFn) -> dict[str, Tensor]:
    """Tensors of any dtypes and shapes, among them empty ones and single numbers."""
    shapes = draw(st.lists(st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(0, 5), max_size=3)), max_size=6))
    return {f"tensor {i}": torch.randint(0, 2, shape).to(dtype) for i, (dtype, shape) in enumerate(shapes)}


@given(tensors())
def test_what_was_packed_is_read_also_by_another_process(packed: dict[str, Tensor]) -> None:
    weights = PackedWeights.of(packed.items())
    for read in (weights, pickle.loads(pickle.dumps(weights, protocol=5))):
        found = dict(read.tensors())
        assert list(found) == list(packed)
        assert all(found[name].dtype == tensor.dtype and torch.equal(found[name], tensor) for name, tensor in packed.items())


def test_what_changes_afterwards_is_not_seen() -> None:
    tensor = torch.zeros(3)
    weights = PackedWeights.of([("a", tensor)])
    tensor.add_(1)
    assert dict(weights.tensors())["a"].tolist() == [0.0, 0.0, 0.0]
    assert not weights.values.flags.writeable


def test_some_of_the_tensors_take_as_much_room_as_they_need() -> None:
    whole = PackedWeights.of([("a", torch.zeros(1000)), ("b", torch.ones(3))])
    some = PackedWeights.of([("b", torch.full((3,), 2.0))], known=whole.without_values())
    assert {name: tensor.tolist() for name, tensor in some.tensors()} == {"b": [2.0, 2.0, 2.0]}
    assert len(some.values) < 100 < 4000 <= len(whole.values)


@pytest.mark.parametrize(
    ("tensor", "complaint"),
    [
        (("b", torch.zeros(4)), r"b is \[4\] float32, and at the first update it was \[3\] float32"),
        (("b", torch.zeros(3).double()), r"b is \[3\] float64, and at the first update it was \[3\] float32"),
        (("c", torch.zeros(1)), r"c is \[1\] float32, and at the first update there was no such tensor"),
    ],
)
def test_others_than_before_are_refused(tensor: tuple[str, Tensor], complaint: str) -> None:
    known = PackedWeights.of([("a", torch.zeros(2)), ("b", torch.zeros(3))])
    with pytest.raises(ValueError, match=complaint):
        PackedWeights.of([tensor], known)
