"""Weights in shared memory come out as they went in."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from lightrl import LoraPolicy, TinyPolicy
from lightrl.policy.weight_access import WeightAccess
from lightrl.policy.weights import TrainerWeights
from lightrl.rollout.hosting.policy_outline import PolicyOutline, copy_into
from lightrl.rollout.hosting.weight_bytes import MappedWeights, WeightBlock

DTYPES = [torch.float32, torch.bfloat16, torch.float64, torch.uint8, torch.bool, torch.int64]


@st.composite
def tensors(draw: st.DrawFn) -> dict[str, Tensor]:
    """Tensors of any dtypes and shapes, among them empty ones and single numbers."""
    shapes = draw(st.lists(st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(0, 5), max_size=3)), min_size=1, max_size=6))
    return {f"tensor {i}": torch.randint(0, 2, shape).to(dtype) for i, (dtype, shape) in enumerate(shapes)}


@pytest.fixture(scope="module")
def block() -> Iterator[WeightBlock]:
    """One of a small policy."""
    block = WeightBlock()
    block.write(TinyPolicy(hidden=16, layers=1).build().hugging_face_tensors(WeightAccess()))
    yield block
    block.close()


@given(tensors())
def test_what_was_written_is_read_and_what_changes_is_seen(first: dict[str, Tensor]) -> None:
    block = WeightBlock()
    block.write(first.items())
    mapped = MappedWeights(os.dup(block.descriptor), block.places)
    second = {name: 1 - tensor.long() for name, tensor in first.items()}
    for written in (first, {name: tensor.to(first[name].dtype) for name, tensor in second.items()}):
        block.write((name, tensor) for name, tensor in written.items())
        found = dict(mapped.tensors())
        assert found.keys() == written.keys()
        assert all(found[name].dtype == tensor.dtype and torch.equal(found[name], tensor) for name, tensor in written.items())
    block.close()


def test_tensors_in_pieces_are_written_whole() -> None:
    block, tensor = WeightBlock(), torch.arange(12.0).view(3, 4)
    block.write([("turned", tensor.T), ("a part", tensor[1:, 2:])])
    found = dict(MappedWeights(os.dup(block.descriptor), block.places).tensors())
    assert torch.equal(found["turned"], tensor.T)
    assert torch.equal(found["a part"], tensor[1:, 2:])
    block.close()


def test_tensors_that_change_are_written_alone() -> None:
    block = WeightBlock()
    assert block.write([("a", torch.zeros(2)), ("b", torch.ones(3))]) == {"a", "b"}
    mapped = MappedWeights(os.dup(block.descriptor), block.places)
    assert block.write([("b", torch.full((3,), 2.0))]) == {"b"}
    assert {name: tensor.tolist() for name, tensor in mapped.tensors()} == {"a": [0.0, 0.0], "b": [2.0, 2.0, 2.0]}
    assert [name for name, _ in mapped.tensors({"b"})] == ["b"]
    block.close()


@pytest.mark.parametrize(
    ("tensor", "complaint"),
    [
        (("b", torch.zeros(4)), r"b is \[4\] float32, and at the first update it was \[3\] float32"),
        (("b", torch.zeros(3).double()), r"b is \[3\] float64, and at the first update it was \[3\] float32"),
        (("c", torch.zeros(1)), r"c is \[1\] float32, and at the first update there was no such tensor"),
    ],
)
def test_another_layout_is_refused(tensor: tuple[str, Tensor], complaint: str) -> None:
    block = WeightBlock()
    block.write([("a", torch.zeros(2)), ("b", torch.zeros(3))])
    with pytest.raises(ValueError, match=complaint):
        block.write([tensor])
    block.close()


def test_a_policy_is_built_of_its_outline_and_its_weights(block: WeightBlock) -> None:
    policy = TinyPolicy(hidden=16, layers=1).build()
    mapped = MappedWeights(os.dup(block.descriptor), block.places)
    built = PolicyOutline.of(policy).build(mapped.tensors(), torch.device("cpu"))
    ids = torch.arange(2, 9)[None]
    mask = torch.arange(7)[None] > 2
    assert torch.equal(built(ids, mask).logprobs, policy(ids, mask).logprobs)
    assert built.eos_token_ids == policy.eos_token_ids
    assert built.decode([4, 5, 6]) == policy.decode([4, 5, 6])


def test_adapters_travel_beside_their_base() -> None:
    policy, block = LoraPolicy(TinyPolicy(hidden=16, layers=1), r=2).build(), WeightBlock()
    weights = TrainerWeights(policy)
    names = block.write(weights.own_tensors(trained=False))
    built = PolicyOutline.of(policy).build(MappedWeights(os.dup(block.descriptor), block.places).tensors(), torch.device("cpu"))
    assert dict(built.own_tensors()).keys() == names
    trained = block.write(weights.own_tensors(trained=True))
    assert trained == {name for name in names if "lora_" in name}
    with torch.no_grad():
        for parameter in policy.parameters():
            if parameter.requires_grad:
                parameter.add_(0.1)
    block.write(weights.own_tensors(trained=True))
    copy_into(built.model, MappedWeights(os.dup(block.descriptor), block.places).tensors(trained), every=False)
    ids = torch.arange(2, 9)[None]
    assert torch.equal(built(ids, ids > 4).logprobs, policy(ids, ids > 4).logprobs)
    block.close()


def test_the_outline_tells_of_a_surrounding_autocast() -> None:
    policy = TinyPolicy(hidden=16, layers=1).build()
    with torch.autocast("cpu", torch.bfloat16):
        outline = PolicyOutline.of(policy)
    assert PolicyOutline.of(policy).autocast is None
    with outline.computing(torch.device("cpu")):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16


def test_weights_that_do_not_fit_the_model_are_refused() -> None:
    policy = TinyPolicy(hidden=16, layers=1).build()
    own = dict(policy.hugging_face_tensors(WeightAccess()))
    with pytest.raises(ValueError, match=r"no weights for model.norm.weight of LlamaForCausalLM"):
        copy_into(policy.model, ((name, tensor) for name, tensor in own.items() if name != "model.norm.weight"))
    with pytest.raises(ValueError, match=r"has no tensor 'model.other'"):
        copy_into(policy.model, [("model.other", torch.zeros(1))])
    with pytest.raises(ValueError, match=r"model.norm.weight: the policy's is \[3\], and LlamaForCausalLM of its config has \[16\]"):
        copy_into(policy.model, [("model.norm.weight", torch.zeros(3))])


def test_the_model_takes_the_dtypes_of_the_weights() -> None:
    policy = TinyPolicy(hidden=16, layers=1).build()
    wide = {name: tensor.detach().double() for name, tensor in policy.hugging_face_tensors(WeightAccess())}
    copy_into(policy.model, wide.items())
    assert {tensor.dtype for _, tensor in policy.hugging_face_tensors(WeightAccess())} == {torch.float64}
    assert policy.model.lm_head.weight is policy.model.model.embed_tokens.weight


def test_a_tensor_that_was_written_can_still_be_resized() -> None:
    # FSDP2 empties its gathered tensors by resizing them
    tensor = torch.arange(4.0)
    WeightBlock().write([("weight", tensor)])
    tensor.untyped_storage().resize_(0)
    assert tensor.untyped_storage().size() == 0
