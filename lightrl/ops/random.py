"""Counter-based random numbers: number t of a row is a function of the row's seed and t, and of nothing else."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

from lightrl.types import Rollout


def _signed(value: int) -> int:
    """The int64 with the bits of an unsigned 64-bit number."""
    return value - (1 << 64) if value >= 1 << 63 else value


_INCREMENT = _signed(0x9E3779B97F4A7C15)
_FIRST_MULTIPLIER = _signed(0xBF58476D1CE4E5B9)
_SECOND_MULTIPLIER = _signed(0x94D049BB133111EB)


def row_seed(*key: int | str) -> int:
    """A seed in the range of int64 from what identifies a row: different keys give unrelated seeds.

    Args:
        key: numbers and texts; their order and their boundaries count.
    """
    digest = hashlib.blake2b(digest_size=8)
    for part in key:
        piece = f"{type(part).__name__}:{part}".encode()
        digest.update(len(piece).to_bytes(8, "little") + piece)
    return int.from_bytes(digest.digest(), "little", signed=True)


def uniforms(seeds: Tensor, start: int | Tensor, count: int) -> Tensor:
    """Uniform numbers `start` to `start + count - 1` of each row.

    u[i, t] = floor(mix(seed_i + (t + 1) * 0x9E3779B97F4A7C15) / 2^11) * 2^-53, with splitmix64's mix.

    Args:
        seeds: `[n]` int64.
        start: first counter, at least 0; or `[n]` int64, one for each row.
        count: how many.

    Returns:
        `[n, count]` float64 in [0, 1), each a multiple of 2^-53.

    Source: Steele, Lea, Flood 2014, Fast splittable pseudorandom number generators, OOPSLA, figures 14 and 17 (mix variant 13 of Stafford).
    """
    first = start[:, None] if isinstance(start, Tensor) else start
    counters = first + torch.arange(1, count + 1, device=seeds.device)
    bits = seeds[:, None] + counters * _INCREMENT
    bits = (bits ^ _shift_right(bits, 30)) * _FIRST_MULTIPLIER
    bits = (bits ^ _shift_right(bits, 27)) * _SECOND_MULTIPLIER
    return _shift_right(bits ^ _shift_right(bits, 31), 11).double() * 2.0**-53


def token_uniforms(rows: Rollout, name: str) -> Tensor:
    """A uniform random number for each token; the first of a row serves where one for each row is wanted.

    It depends on the run's seed, on the draw of the prompt that the row answers, and on the name: on every rank, in every order and
    after a resume it is the same, and that of an equal row is another.

    Args:
        rows: N rows with seeds.
        name: other names give other numbers.

    Returns:
        `[N, L]` float64 in [0, 1).

    Raises:
        RuntimeError: the rows have no seeds.
    """
    if rows.seeds is None:
        raise RuntimeError("these rows have no seeds, since no loop has made them: set `seeds`, an int64 for each row")
    return uniforms(rows.seeds ^ row_seed(name), 0, rows.input_ids.shape[1])


def _shift_right(bits: Tensor, by: int) -> Tensor:
    # int64 shifts drag the sign along; the mask makes them logical
    return (bits >> by) & ((1 << (64 - by)) - 1)
