"""Corrections whose weights have the mean 1 over a step: by hand, and in runs."""

from __future__ import annotations

from typing import Literal

import pytest
import torch
from lightrl_workshop import assert_same_gradient, gradient_of_step, hand_made_experience, random_rollout
from lightrl_zoo import UnitMean
from torch import Tensor

from lightrl import (
    GroupRelative,
    GroupSampler,
    MaskedImportance,
    Minibatch,
    PolicyOutput,
    RolloutCorrection,
    TinyPolicy,
    TruncatedImportance,
)
from lightrl.parts.base import unpack

pytestmark = pytest.mark.filterwarnings("ignore:the engine.s log-probs")
POLICY = TinyPolicy(hidden=16, layers=1, heads=2, dtype="float64")


def weights(part: RolloutCorrection) -> Tensor:
    """Of two rows, of importance 2, 1, 1, 1 and 4, 2; a third is not scorable."""
    rows = hand_made_experience([1.0, 0.0, 0.0], lengths=[4, 2, 4], scorable=[True, True, False])
    importance = torch.tensor([[2, 1, 1, 1], [4, 2, 1, 1], [100, 100, 100, 100]], dtype=torch.float64)
    rows.old_logprobs = torch.zeros(3, 6, dtype=torch.float64)
    rows.rollout_logprobs = torch.nn.functional.pad(-importance.log(), (2, 0))
    minibatch = Minibatch(rows, PolicyOutput(rows.old_logprobs))
    asked = part.given(part.prepare(minibatch))
    return unpack(asked.weights(rows.old_logprobs, rows.rollout_logprobs, minibatch.mask))[0]


def test_the_mean_counts_tokens_or_rows() -> None:
    # 11 / 6 over the tokens; 1.25 and 3 of the rows, and so 2.125
    of_tokens, of_rows = (weights(UnitMean(TruncatedImportance(cap=9), level)) for level in ("token", "sequence"))
    assert of_tokens[0, 2:].tolist() == pytest.approx([x * 6 / 11 for x in (2, 1, 1, 1)])
    assert of_tokens[1, 2:4].tolist() == pytest.approx([24 / 11, 12 / 11])
    assert of_rows[1, 2:4].tolist() == pytest.approx([4 / 2.125, 2 / 2.125])


def test_it_divides_what_cap_and_band_have_left() -> None:
    # 2, 1, 1, 1 and 3, 2
    assert weights(UnitMean(TruncatedImportance(cap=3)))[1, 2:4].tolist() == pytest.approx([1.8, 1.2])
    # 2, 1, 1, 1 and 0, 2
    assert weights(UnitMean(MaskedImportance(low=0.5, high=3)))[1, 2:4].tolist() == pytest.approx([0, 12 / 7])
    assert not weights(UnitMean(MaskedImportance(low=5, high=6)))[:2].any()


def test_a_mean_within_a_mean_is_refused() -> None:
    with pytest.raises(ValueError, match="UnitMean divides weights by their mean, and UnitMean within it does so already"):
        UnitMean(UnitMean())


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_the_whole_step_is_divided_by_one_number(level: Literal["token", "sequence"]) -> None:
    """The mean of each micro-batch would bend the gradient."""
    rollout = random_rollout(POLICY.build())

    def gradient(correction: RolloutCorrection, budget: int | None) -> Tensor:
        algorithm = GroupRelative(sampler=GroupSampler(4), correction=correction, old_logprobs="recompute")
        return gradient_of_step(algorithm, rollout, POLICY, budget)

    plain, divided = gradient(TruncatedImportance(), None), gradient(UnitMean(level=level), 64)
    factor = float(divided.norm() / plain.norm())
    assert abs(factor - 1) > 1e-3
    # the norms of the layers are computed in float32, which rounds a scaled gradient otherwise
    assert_same_gradient(divided, plain * factor, 1e-6)
