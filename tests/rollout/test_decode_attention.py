"""Attention over tables of keys and values gives what softmax(scale q k^T) v gives."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from lightrl.rollout.decode import decode_attention
from lightrl.rollout.decode.decode_attention import DecodeAttention

measured = pytest.mark.skipif(not torch.backends.cpu.get_cpu_capability().startswith("AVX"), reason="needs an x86 processor with AVX")


@pytest.fixture(autouse=True)
def _tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode_attention, "MANY", 0)
    monkeypatch.setattr(decode_attention, "mkl_is_quick", lambda: False)


@pytest.fixture
def _no_fused_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(F, "scaled_dot_product_attention", None)


def buffers(rows: int, heads: int, places: int, width: int, read: int) -> list[Tensor]:
    """Keys and values, with numbers where positions have been read, and none elsewhere."""
    made = [torch.full((rows, heads, places, width), torch.nan) for _ in range(2)]
    for buffer in made:
        buffer[:, :, :read] = torch.randn(rows, heads, read, width)
    return made


def exact(query: Tensor, keys: Tensor, values: Tensor, closed: Tensor | None, scale: float) -> Tensor:
    scores = query.double() @ keys.double().transpose(-1, -2) * scale
    return ((scores if closed is None else scores + closed).softmax(-1) @ values.double()).float()


@measured
@given(
    shape=st.tuples(*(st.integers(1, most) for most in (5, 3, 4, 9))),
    read=st.integers(1, 12),
    room=st.integers(0, 5),
    gone=st.integers(0, 3),
    padding=st.booleans(),
)
def test_numbers_are_those_of_double_precision(shape, read, room, gone, padding) -> None:
    rows, heads, queries, width = shape
    torch.manual_seed(0)
    attention = DecodeAttention()
    made = buffers(rows + gone, heads, read + room, width, read)
    layers = [[buffer[:rows, :, :read] for buffer in made], [buffer[:rows, :, :read].flip(0) + 1.0 for buffer in made]]
    closed = torch.where(torch.arange(read) < torch.randint(read, (rows, 1)), -torch.inf, 0.0)[:, None, None] if padding else None
    for keys, values in layers:
        query = torch.randn(rows, heads, queries, width)
        found = attention(query, keys, values, closed, 0.7)
        torch.testing.assert_close(found, exact(query, keys, values, closed, 0.7), atol=2e-6, rtol=2e-6)


@measured
@pytest.mark.usefixtures("_no_fused_attention")
def test_each_step_reads_its_own_places_and_padding() -> None:
    attention = DecodeAttention()
    made = buffers(3, 2, 8, 4, 8)
    query = torch.randn(3, 2, 2, 4)
    closings = [torch.zeros(3, 1, 1, 5), torch.tensor([0.0, 0.0, 0.0, 0.0, -torch.inf]).expand(3, 1, 1, 5), None]
    for rows, read, closed in [(3, 5, None), *((3, 5, closed) for closed in closings), (2, 5, None), (2, 6, None), (3, 8, None)]:
        keys, values = (buffer[:rows, :, :read] for buffer in made)
        found = attention(query[:rows], keys, values, closed, 0.5)
        torch.testing.assert_close(found, exact(query[:rows], keys, values, closed, 0.5), atol=2e-6, rtol=2e-6)


@pytest.mark.parametrize("change", ["double", "heads inside", "positions apart", "unlike"])
def test_what_is_no_table_is_read_as_it_is(change: str) -> None:
    keys, values = buffers(3, 2, 6, 4, 6)
    if change == "double":
        keys, values = keys.double(), values.double()
    elif change == "heads inside":
        keys, values = (part.transpose(1, 2).contiguous().transpose(1, 2) for part in (keys, values))
    elif change == "positions apart":
        keys, values = keys[:, :, ::2], values[:, :, ::2]
    else:
        values = values.clone()[:, :, :5]
        keys = keys.clone()[:, :, :5].contiguous()
    query = torch.randn(3, 2, 1, 4, dtype=keys.dtype)
    found = DecodeAttention()(query, keys, values, None, 0.5)
    torch.testing.assert_close(found.float(), exact(query, keys, values, None, 0.5), atol=2e-6, rtol=2e-6)
