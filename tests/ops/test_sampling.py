"""Inverse-CDF sampling: distribution, truncation as transformers defines it, and the tail of a large vocabulary."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor
from transformers import MinPLogitsWarper, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from lightrl.ops.random import uniforms
from lightrl.ops.sampling import AT_ONCE, BLOCK, sample, truncate

TRUNCATIONS = [
    {"temperature": t, "top_k": k, "top_p": p, "min_p": m}
    for t, k, p, m in itertools.product((1.0, 0.7, 1.5), (0, 5), (1.0, 0.8), (0.0, 0.1))
]


def by_transformers(logits: Tensor, temperature: float, top_k: int, top_p: float, min_p: float) -> Tensor:
    """Probabilities after the processors of transformers, in their order."""
    processors: list[Any] = [TemperatureLogitsWarper(temperature)]
    processors += [TopKLogitsWarper(top_k)] if top_k else []
    processors += [TopPLogitsWarper(top_p)] if top_p < 1 else []
    processors += [MinPLogitsWarper(min_p)] if min_p else []
    ids = torch.zeros(len(logits), 1, dtype=torch.long)
    for processor in processors:
        logits = processor(ids, logits)
    return logits.softmax(-1)


def evenly(n: int) -> Tensor:
    """n uniform numbers of one stream."""
    return uniforms(torch.tensor([5]), 0, n)[0]


@pytest.mark.parametrize("setting", TRUNCATIONS, ids=str)
def test_draws_follow_the_truncated_softmax(setting: dict[str, Any]) -> None:
    logits = torch.randn(1, 30, generator=torch.Generator().manual_seed(1)) * 2
    expected = by_transformers(logits, **setting)[0].double().numpy()
    tokens, logprobs = sample(logits.expand(20_000, -1), evenly(20_000), **setting)
    counts = np.bincount(tokens.numpy(), minlength=30)
    support = expected > 0
    assert counts[~support].sum() == 0
    if support.sum() > 1:
        assert stats.chisquare(counts[support], expected[support] / expected[support].sum() * 20_000).pvalue > 0.001
    whole = (logits / setting["temperature"]).log_softmax(-1)[0]
    torch.testing.assert_close(logprobs, whole[tokens], atol=1e-6, rtol=1e-6)


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    vocabulary=st.integers(2, 200),
    top_k=st.integers(0, 250),
    top_p=st.floats(0.05, 1.0),
    min_p=st.floats(0.0, 0.9),
    ties=st.booleans(),
)
def test_what_is_kept_is_what_transformers_keeps(seed: int, vocabulary: int, top_k: int, top_p: float, min_p: float, ties: bool) -> None:
    logits = torch.randn(3, vocabulary, generator=torch.Generator().manual_seed(seed)) * 3
    # ties at the boundary of top-p fall to the order of an unstable sort: only top-k and min-p define them
    top_p = 1.0 if ties else top_p
    logits = logits.round() if ties else logits
    probabilities = logits.softmax(-1)
    kept = truncate(probabilities, top_k, top_p, min_p)
    theirs = by_transformers(logits, 1.0, top_k, top_p, min_p)
    # a token may sit on a boundary to within float32
    assert ((kept > 0) != (theirs > 0)).sum() <= 1
    assert torch.equal(kept[kept > 0], probabilities[kept > 0])
    assert (kept.gather(1, logits.argmax(-1, keepdim=True)) > 0).all()


def test_top_k_keeps_what_ties_with_the_last() -> None:
    assert truncate(torch.tensor([[0.4, 0.2, 0.2, 0.1, 0.1]]), top_k=2).tolist() == [pytest.approx([0.4, 0.2, 0.2, 0, 0])]


def test_top_p_by_hand() -> None:
    weights = torch.tensor([[0.5, 0.3, 0.15, 0.05]], dtype=torch.float64)
    assert (truncate(weights, top_p=0.7) > 0).tolist() == [[True, True, False, False]]
    assert (truncate(weights, top_p=0.81) > 0).tolist() == [[True, True, True, False]]
    # after top-k the rest is renormalised: 0.5 / 0.8 = 0.625 of it suffices
    assert (truncate(weights, top_k=2, top_p=0.6) > 0).tolist() == [[True, False, False, False]]


@pytest.mark.parametrize("vocabulary", [4, 4 * BLOCK])
def test_top_p_among_ties_keeps_as_many_as_it_needs_and_the_first(vocabulary: int) -> None:
    kept = truncate(torch.ones(2, vocabulary), top_p=0.5)
    assert kept.tolist() == [[1.0] * (vocabulary // 2) + [0.0] * (vocabulary // 2)] * 2


@pytest.mark.parametrize("spread", [0.1, 1.0, 6.0])
@pytest.mark.parametrize("top_p", [0.3, 0.9, 0.999])
def test_top_p_of_a_large_vocabulary_keeps_what_transformers_keeps(spread: float, top_p: float) -> None:
    logits = torch.randn(2, 20_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * spread
    assert torch.equal(truncate(logits.softmax(-1), top_p=top_p) > 0, by_transformers(logits, 1.0, 0, top_p, 0.0) > 0)


def test_temperature_zero_takes_the_first_of_the_likeliest_with_its_plain_log_prob() -> None:
    logits = torch.tensor([[1.0, 3.0, 3.0], [0.0, -1.0, -2.0]])
    tokens, logprobs = sample(logits, torch.tensor([0.99, 0.99]).double(), temperature=0.0, top_k=1, top_p=0.1, min_p=0.5)
    assert tokens.tolist() == [1, 0]
    torch.testing.assert_close(logprobs, logits.log_softmax(-1)[[0, 1], [1, 0]])


def test_boundaries_of_the_unit_interval_by_hand() -> None:
    weights = torch.tensor([[0.0, 1.0, 0.0, 1.0, 2.0, 0.0]])
    u = torch.tensor([0.0, 0.2499999, 0.25, 0.4999999, 0.5, 1 - 2.0**-53], dtype=torch.float64)
    assert sample(weights.log().expand(6, -1), u)[0].tolist() == [1, 1, 3, 3, 4, 4]


@settings(max_examples=60, deadline=None)
@given(
    vocabulary=st.sampled_from([1, 2, 24, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 5000]),
    seed=st.integers(0, 1000),
    u=st.sampled_from([0.0, 2.0**-53, 0.3, 0.5, 1 - 2.0**-53]),
    share=st.floats(0.0, 1.0),
)
def test_a_token_without_probability_is_never_drawn(vocabulary: int, seed: int, u: float, share: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    weights = torch.rand(8, vocabulary, generator=generator) ** 8
    weights[torch.rand(8, vocabulary, generator=generator) < share] = 0
    weights[:, seed % vocabulary] = 1e-3
    index, _ = sample(weights.log(), torch.full((8,), u, dtype=torch.float64))
    assert (weights.gather(1, index[:, None]) > 0).all()


@pytest.mark.parametrize("vocabulary", [BLOCK + 1, 32_000, 151_936])
def test_searching_by_blocks_is_the_search_of_the_whole(vocabulary: int) -> None:
    generator = torch.Generator().manual_seed(vocabulary)
    weights = torch.randn(16, vocabulary, generator=generator).mul(4).exp()
    u = torch.rand(16, generator=generator, dtype=torch.float64)
    got, _ = sample(weights.log(), u)
    cumulated = weights.double().cumsum(-1) / weights.double().sum(-1, keepdim=True)
    above = cumulated.gather(1, got[:, None])[:, 0]
    below = above - weights.double().gather(1, got[:, None])[:, 0] / weights.double().sum(-1)
    # block sums are float32: the interval of the token may be moved by their rounding
    assert (u > below - 1e-6).all()
    assert (u < above + 1e-6).all()


def test_the_tail_of_a_large_vocabulary_has_its_probability() -> None:
    vocabulary, n = 151_936, 4000
    logits = torch.zeros(1, vocabulary)
    logits[0, :10] = 12.0
    thirds = np.array([10, 50_000, 100_000, vocabulary])
    weight = np.exp(12.0) * 10
    expected = np.concatenate([[weight], np.diff(thirds)]) / (weight + vocabulary - 10)
    tokens = torch.cat([sample(logits.expand(500, -1), u)[0] for u in evenly(n).split(500)]).numpy()
    counts = np.bincount(np.searchsorted(thirds, tokens, side="right"), minlength=4)
    assert stats.chisquare(counts, expected * n).pvalue > 0.001


def test_the_last_token_of_a_large_vocabulary_can_be_drawn_and_the_padding_behind_it_cannot() -> None:
    logits = torch.full((1, 151_936), -torch.inf)
    logits[0, 0], logits[0, 151_000] = 10.0, -10.0
    tokens, logprobs = sample(logits.expand(2, -1), torch.tensor([1 - 2.0**-53, 1 - 1e-8], dtype=torch.float64))
    assert tokens.tolist() == [151_000, 0]
    assert logprobs[0].item() == pytest.approx(-20.0, abs=1e-5)


def test_half_precision_logits_give_float32_log_probs_and_float64_stay() -> None:
    for dtype, expected in ((torch.bfloat16, torch.float32), (torch.float16, torch.float32), (torch.float64, torch.float64)):
        assert sample(torch.randn(2, 9).to(dtype), torch.rand(2, dtype=torch.float64))[1].dtype == expected


def test_nan_logits_show_in_the_log_probs() -> None:
    for vocabulary, top_p in itertools.product((10, 3000), (1.0, 0.9)):
        logits = torch.zeros(2, vocabulary)
        logits[1, 3] = torch.nan
        tokens, logprobs = sample(logits, torch.tensor([0.5, 0.5], dtype=torch.float64), top_p=top_p)
        assert logprobs.isnan().tolist() == [False, True]
        assert ((tokens >= 0) & (tokens < vocabulary)).all()


def test_many_logits_are_sampled_in_parts_with_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = torch.randn(7, 3 * BLOCK + 5, generator=torch.Generator().manual_seed(3)) * 3
    uniform = evenly(7)
    whole = sample(logits, uniform, temperature=0.7, top_k=50)
    for at_once in (1, 2 * logits.shape[1], 3 * logits.shape[1] + 1):
        monkeypatch.setitem(AT_ONCE, "cpu", at_once)
        tokens, logprobs = sample(logits, uniform, temperature=0.7, top_k=50)
        assert torch.equal(tokens, whole[0])
        assert torch.equal(logprobs, whole[1])
