"""MaxRL, pass@k training and GDPO: advantages by hand, and what the papers derive them from."""

import itertools
import math

import pytest
import torch
from lightrl_workshop.experience import PROMPT, experience
from lightrl_zoo import GDPO, BatchNormalized, BestOverSecond, MaxRL, MeanScaled, PassAtK, PassAtKTraining

from lightrl import Advantage, DecoupledClip, GroupNormalized, SymmetricClip, TokenMean


def per_row(part: Advantage, rewards: list[float], **more) -> list[float]:
    return part.compute(experience(rewards, **more)).advantages[:, PROMPT].tolist()


@pytest.mark.parametrize(
    ("rewards", "advantages"),
    [
        ([1.0, 0.0, 0.0, 0.0], [3, -1, -1, -1]),
        ([1.0, 1.0, 1.0, 0.0], [1 / 3, 1 / 3, 1 / 3, -1]),
        ([1.0, 1.0, 1.0, 1.0], [0, 0, 0, 0]),
        ([0.0, 0.0, 0.0, 0.0], [0, 0, 0, 0]),
        ([-1.0, -2.0, -1.0, -1.0], [0, 0, 0, 0]),
    ],
)
def test_maxrl_is_in_units_of_the_mean(rewards: list[float], advantages: list[float]) -> None:
    assert per_row(MeanScaled(), rewards) == pytest.approx(advantages, abs=2e-5)


@pytest.mark.parametrize("p", [0.05, 0.3, 0.8])
def test_the_expected_gradient_of_maxrl_is_that_of_the_log_likelihood_cut_after_g_minus_1_terms(p: float) -> None:
    """Theorem 5, over all outcomes of 5 completions that are right with probability p: d log p / dp = sum_k (1 - p)^(k - 1)."""
    size, expected = 5, 0.0
    for outcome in itertools.product([1.0, 0.0], repeat=size):
        probability = math.prod(p if r else 1 - p for r in outcome)
        scores = [1 / p if r else -1 / (1 - p) for r in outcome]
        advantages = per_row(MeanScaled(eps=0), list(outcome))
        expected += probability * sum(a * s for a, s in zip(advantages, scores, strict=True)) / size
    assert expected == pytest.approx(sum((1 - p) ** (k - 1) for k in range(1, size)), rel=1e-5)


@pytest.mark.parametrize(
    ("rewards", "k", "right", "wrong"),
    [
        ([1.0] + 7 * [0.0], 4, 1.0, -1 / 7),  # Q = 1 - 35/70, s = 1/2, 20/35 of the sets of a wrong one have no right one
        ([1.0, 1.0, 0.0, 0.0], 2, 0.447214, -0.447214),  # Q = 5/6, s = sqrt(5)/6
        ([1.0, 1.0, 0.0, 0.0], 1, 1.0, -1.0),
        ([1.0, 1.0, 1.0, 0.0], 2, 0.0, 0.0),  # every two have a right one
        ([1.0, 0.0], 4, 0.0, 0.0),  # no sets of four
    ],
)
def test_pass_at_k_by_hand(rewards: list[float], k: int, right: float, wrong: float) -> None:
    expected = [right if r else wrong for r in rewards]
    assert per_row(PassAtK(k), rewards) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("right", [1, 2, 3, 4])
def test_pass_at_k_is_the_mean_over_all_sets_that_a_completion_belongs_to(k: int, right: int) -> None:
    rewards = [1.0] * right + [0.0] * (6 - right)
    sets = list(itertools.combinations(range(6), k))
    passed = {chosen: float(any(rewards[i] for i in chosen)) for chosen in sets}
    mean = sum(passed.values()) / len(sets)
    deviation = math.sqrt(mean * (1 - mean))
    if deviation == 0:
        expected = [0.0] * 6
    else:
        of_row = [[(passed[chosen] - mean) / deviation for chosen in sets if i in chosen] for i in range(6)]
        expected = [sum(values) / len(values) for values in of_row]
    assert per_row(PassAtK(k), rewards) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("rewards", "normalized", "advantages"),
    [
        ([0.1, 0.9, 0.4, 0.4], False, [0, 0.5, 0, 0]),
        ([0.1, 0.9, 0.4, 0.4], True, [0, 0.5 / 0.331662, 0, 0]),  # deviation sqrt(0.33 / 3)
        ([1.0, 0.0, 1.0], False, [0, 0, 0]),
        ([-1.0, -2.0], False, [1, 0]),
        ([1.0], True, [0]),
        ([0.5, 0.5, 0.5], True, [0, 0, 0]),
    ],
)
def test_best_over_second_by_hand(rewards: list[float], normalized: bool, advantages: list[float]) -> None:
    assert per_row(BestOverSecond(normalized), rewards) == pytest.approx(advantages, abs=1e-5)


def test_best_over_second_knows_groups_and_rows_without_a_score() -> None:
    rewards, group = [3.0, 1.0, 9.0, 2.0, 7.0], [0, 0, 0, 1, 1]
    found = per_row(BestOverSecond(), rewards, group=group, scorable=[True, True, False, True, True])
    assert found == [2, 0, 0, 0, 5]


def test_pass_at_k_counts_rows_that_can_be_scored() -> None:
    scorable = [True, True, True, True, False]
    found = per_row(PassAtK(2), [1.0, 1.0, 0.0, 0.0, torch.nan], scorable=scorable)
    assert found == pytest.approx([0.447214, 0.447214, -0.447214, -0.447214, 0.0], abs=1e-5)


def test_gdpo_compares_with_the_batch() -> None:
    assert per_row(BatchNormalized(), [0.0, 2.0, 0.0, 2.0], group=[0, 0, 1, 1]) == pytest.approx([-0.866025, 0.866025] * 2, abs=1e-5)
    assert per_row(BatchNormalized(), [0.3] * 4, group=[0, 0, 1, 1]) == [0.0] * 4


def test_parts() -> None:
    assert (type(MaxRL().advantage), type(MaxRL().clip), type(MaxRL().aggregation)) == (MeanScaled, SymmetricClip, TokenMean)
    assert (type(GDPO().advantage), type(GDPO().aggregation)) == (BatchNormalized, TokenMean)
    training = PassAtKTraining()
    assert (training.advantage.k, training.sampler.group_size, type(training.clip)) == (4, 32, DecoupledClip)
    assert not isinstance(training.advantage, GroupNormalized)


@pytest.mark.parametrize(
    "build", [lambda: MeanScaled(eps=-1), lambda: PassAtK(k=0), lambda: BatchNormalized(eps=-1), lambda: BestOverSecond(eps=-1)]
)
def test_impossible_settings_are_refused(build) -> None:
    with pytest.raises(ValueError, match=r"needs .* got "):
        build()
