"""Clip-Cov, KL-Cov and high-entropy tokens alone: by hand, and the same gradient however a step is cut, ordered, padded and shared out."""

from __future__ import annotations

import math
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from lightrl_workshop import assert_same_gradient, gradient_of_step, hand_made_experience
from lightrl_zoo import CovarianceClip, CovarianceKL, KLCov, OffPolicyMask, TopEntropy

from lightrl import DecoupledClip, LossTerm, Minibatch, PolicyOutput

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from one_step import ALGORITHMS, POLICY, rows  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:the engine.s log-probs")

# advantages have the mean 0 and log-probs the mean -2, so that the covariances are 2, 1, 0 and 2, 3, 6
ADVANTAGES = torch.tensor([[0, 0, 2.0, 2.0, 2.0], [0, 0, -2.0, -2.0, -2.0]], dtype=torch.float64)
LOGPROBS = torch.tensor([[0, 0, -1.0, -1.5, -2.0], [0, 0, -3.0, -3.5, -1.0]], dtype=torch.float64)


def step(old: torch.Tensor | None = None, **outputs: list[list[float]]) -> Minibatch:
    """Two rows of three tokens."""
    before = LOGPROBS.clone() if old is None else old
    rows = hand_made_experience([1.0, 0.0], lengths=[3, 3], advantages=ADVANTAGES, old_logprobs=before)
    read = {name: torch.tensor([[0, 0, *row] for row in values]) for name, values in outputs.items()}
    return Minibatch(rows, PolicyOutput(LOGPROBS, read))


def chosen(part: Any, minibatch: Minibatch) -> list[tuple[int, int]]:
    """Row and token of what is chosen."""
    (found,) = part.prepare(minibatch).values()
    return [(row, place - 2) for row, place in found.nonzero().tolist()]


def test_the_tokens_of_highest_covariance_are_tied() -> None:
    # the mean log-prob is -2: covariances 2, 1, 0 of the first row, 2, 3, -2 of the second
    assert chosen(CovarianceKL(), step()) == [(1, 1)]
    assert chosen(CovarianceKL(share=0.5), step()) == [(0, 0), (1, 0), (1, 1)]


def test_kl_cov_penalises_moves_in_both_directions() -> None:
    part, moved = CovarianceKL(share=0.5), LOGPROBS.clone()
    moved[0, 2] -= 0.3
    moved[1, 3] += 0.2
    moved[1, 4] += 0.7
    minibatch = step(old=moved)
    rows = replace(minibatch.rows, extras=part.prepare(minibatch))
    now = LOGPROBS.clone().requires_grad_()
    loss = part.loss(rows, PolicyOutput(now))
    assert loss[:, 2:].tolist() == [pytest.approx([0.3, 0.0, 0.0]), pytest.approx([0.0, 0.2, 0.0])]
    loss.sum().backward()
    assert now.grad[:, 2:].tolist() == [[1.0, 0.0, 0.0], [0.0, -1.0, 0.0]]
    assert part.weights(rows).sum() == 6


def test_one_of_the_candidates_is_dropped_at_least() -> None:
    (first,) = chosen(CovarianceClip(), step())
    # above 1 and below 5: of covariances 2, 1, 0, 2, 3, -2
    assert first in [(0, 0), (1, 0), (1, 1)]
    assert chosen(CovarianceClip(share=0.5), step()) == [(0, 0), (1, 0), (1, 1)]
    assert chosen(CovarianceClip(share=0.5, lower=2.5), step()) == [(1, 1)]
    assert chosen(CovarianceClip(share=0.5, lower=3.5), step()) == []


def test_each_step_draws_anew() -> None:
    found = {chosen(CovarianceClip(), replace(step(), step=number))[0] for number in range(20)}
    assert found == {(0, 0), (1, 0), (1, 1)}


def test_a_token_that_the_ratio_clips_is_no_candidate() -> None:
    old = LOGPROBS.clone()
    old[0, 2] -= math.log(1.5)
    assert chosen(CovarianceClip(low=0.2, high=0.2, share=0.5), step(old)) == [(1, 0), (1, 1)]


def test_dropped_tokens_have_no_gradient_and_others_that_of_the_clip() -> None:
    part, minibatch = CovarianceClip(share=0.5), step()
    log_ratio = torch.full((2, 5), math.log(1.5), dtype=torch.float64).requires_grad_()
    mask = minibatch.mask
    found = part.given(part.prepare(minibatch)).surrogate(log_ratio, ADVANTAGES, LOGPROBS, mask)
    assert found.loss[:, 2:].tolist() == [pytest.approx([0.0, -3.0, -3.0]), pytest.approx([0.0, 0.0, 3.0])]
    found.loss.sum().backward()
    assert log_ratio.grad[:, 2:].tolist() == [pytest.approx([0.0, -3.0, -3.0]), pytest.approx([0.0, 0.0, 3.0])]
    assert found.clipped_high[:, 2:].tolist() == [[True, False, False], [False, False, False]]
    assert found.clipped_low[:, 2:].tolist() == [[False, False, False], [True, True, False]]


def test_the_fifth_of_highest_entropy_learns() -> None:
    minibatch = step(entropy=[[0.5, 0.1, 0.4], [0.9, 0.2, 0.3]])
    # ceil(0.2 x 6) = 2
    assert chosen(TopEntropy(), minibatch) == [(0, 0), (1, 0)]
    part = TopEntropy(clip=DecoupledClip(0.2, 0.2), share=0.5)
    log_ratio = torch.full((2, 5), math.log(1.5), dtype=torch.float64).requires_grad_()
    found = part.given(part.prepare(minibatch)).surrogate(log_ratio, ADVANTAGES, LOGPROBS, minibatch.mask)
    # three of six are left, and weigh twice as much
    assert found.loss[:, 2:].tolist() == [pytest.approx([-4.8, 0.0, -4.8]), pytest.approx([6.0, 0.0, 0.0])]
    found.loss.sum().backward()
    assert log_ratio.grad[:, 2:].tolist() == [[0.0, 0.0, 0.0], pytest.approx([6.0, 0.0, 0.0])]
    assert found.clipped_high[:, 2:].tolist() == [[True, False, True], [False] * 3]


def test_trls_example_of_ten_tokens_leaves_two() -> None:
    """TRL's test of `top_entropy_quantile` 0.2: entropies 0.1 to 1.0, of which 0.9 and 1.0 are left; higher ones are padding."""
    rows = hand_made_experience([1.0, 0.0], lengths=[6, 4])
    entropies = torch.tensor([[0, 0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [0, 0, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2]])
    minibatch = Minibatch(rows, PolicyOutput(torch.zeros(2, 8), {"entropy": entropies}))
    assert chosen(TopEntropy(), minibatch) == [(1, 2), (1, 3)]


def test_equal_values_are_told_apart_by_random_numbers_and_not_by_their_place() -> None:
    minibatch = step(entropy=[[0.5, 0.5, 0.5], [0.5, 0.5 + 1e-9, 0.5]])
    found = chosen(TopEntropy(), minibatch)
    assert len(found) == 2
    other = replace(minibatch, rows=minibatch.rows.select([1, 0]), output=PolicyOutput(LOGPROBS.flip(0), minibatch.output.outputs))
    assert sorted((1 - row, place) for row, place in chosen(TopEntropy(), other)) == found


def test_a_scheme_within_another_is_prepared_too() -> None:
    nested = OffPolicyMask(clip=TopEntropy(clip=CovarianceClip()))
    assert nested.gives == {"clip_cov", "high_entropy"}
    assert [output.name for output in nested.outputs] == ["entropy"]
    assert nested.prepare(step(entropy=[[0.5, 0.1, 0.4], [0.9, 0.2, 0.3]])).keys() == nested.gives


@pytest.mark.parametrize("name", ALGORITHMS)
def test_micro_batches_order_and_padding_do_not_change_the_gradient(name: str) -> None:
    rollout = rows()
    whole = gradient_of_step(ALGORITHMS[name](), rollout, POLICY)
    shuffled = rollout.select(torch.randperm(16, generator=torch.Generator().manual_seed(1)))
    for other, budget in ((rollout, 64), (shuffled, 64), (rollout.padded(40), 300)):
        assert_same_gradient(whole, gradient_of_step(ALGORITHMS[name](), other, POLICY, budget))


@pytest.mark.thorough
def test_nor_does_the_number_of_ranks(tmp_path: Path) -> None:
    command = [sys.executable, str(HERE / "one_step.py"), "2", str(tmp_path / "gradient.pt")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert_same_gradient(gradient_of_step(ALGORITHMS["all"](), rows(), POLICY), torch.load(tmp_path / "gradient.pt"))


def test_several_steps_without_a_clip_are_held_by_the_term() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KLCov(minibatches=2)
    with pytest.warns(UserWarning, match="NoClip has no bound"):
        KLCov(minibatches=2, kl_cov=None)


def test_a_run_without_the_term_prepares_nothing() -> None:
    term: LossTerm = CovarianceKL(coefficient=0)
    assert term.gives == frozenset()


@pytest.mark.parametrize("build", [lambda: CovarianceClip(lower=2, upper=1), lambda: TopEntropy(share=0), lambda: CovarianceKL(share=1)])
def test_impossible_numbers_are_refused(build: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"needs .* got "):
        build()
