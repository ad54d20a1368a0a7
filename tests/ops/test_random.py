"""Counter-based random numbers: known values, uniformity, independence of rows and steps."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lightrl.ops.random import row_seed, uniforms

BITS = 1 << 64


def splitmix64(seed: int, count: int) -> list[int]:
    """The reference implementation, in Python's integers."""
    out, state = [], seed % BITS
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) % BITS
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % BITS
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % BITS
        out.append(z ^ (z >> 31))
    return out


def test_the_first_outputs_of_seed_1234567_are_the_published_ones() -> None:
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
    assert splitmix64(1234567, 5) == published
    assert uniforms(torch.tensor([1234567]), 0, 5)[0].tolist() == [(z >> 11) * 2.0**-53 for z in published]


@given(seed=st.integers(-(1 << 63), (1 << 63) - 1), start=st.integers(0, 10_000))
def test_equal_to_the_reference_for_every_seed_and_start(seed: int, start: int) -> None:
    got = uniforms(torch.tensor([seed]), start, 4)[0].tolist()
    jumped = (seed + start * 0x9E3779B97F4A7C15) % BITS
    assert got == [(z >> 11) * 2.0**-53 for z in splitmix64(jumped, 4)]
    assert all(0 <= u < 1 for u in got)


def test_a_block_is_the_numbers_one_by_one() -> None:
    seeds = torch.tensor([row_seed(0, i) for i in range(5)])
    whole = uniforms(seeds, 0, 100)
    assert torch.equal(whole[[3, 1], 40:60], uniforms(seeds[[3, 1]], 40, 20))


def test_uniform_along_rows_and_along_steps() -> None:
    seeds = torch.tensor([row_seed(7, "prompt", i) for i in range(400)])
    u = uniforms(seeds, 0, 400).numpy()
    assert stats.kstest(u.ravel(), "uniform").pvalue > 0.01
    assert stats.kstest([stats.kstest(row, "uniform").pvalue for row in u], "uniform").pvalue > 0.01
    assert stats.kstest([stats.kstest(step, "uniform").pvalue for step in u.T], "uniform").pvalue > 0.01


@pytest.mark.parametrize("consecutive", [False, True])
def test_rows_and_steps_do_not_correlate(consecutive: bool) -> None:
    seeds = torch.arange(300) if consecutive else torch.tensor([row_seed(0, 0, "p", i) for i in range(300)])
    u = uniforms(seeds, 0, 1000).numpy()
    between = np.corrcoef(u)[np.triu_indices(300, 1)] * np.sqrt(1000)
    assert stats.kstest(between, "norm").pvalue > 0.001
    assert abs(between).max() < 6
    neighbours = np.corrcoef(u[:, :-1].ravel(), u[:, 1:].ravel())[0, 1]
    assert abs(neighbours) * np.sqrt(300 * 999) < 4


def test_a_seed_depends_on_every_part_of_its_key_and_on_their_boundaries() -> None:
    keys = [
        (0, 0, "p", 0),
        (1, 0, "p", 0),
        (0, 1, "p", 0),
        (0, 0, "q", 0),
        (0, 0, "p", 1),
        (0, 0, "p0"),
        ("0", 0, "p", 0),
        (0, 0, "p", 0, ""),
    ]
    seeds = {row_seed(*key) for key in keys}
    assert len(seeds) == len(keys)
    assert all(-(1 << 63) <= seed < 1 << 63 for seed in seeds)
    assert row_seed(0, 0, "p", 0) == row_seed(0, 0, "p", 0)
