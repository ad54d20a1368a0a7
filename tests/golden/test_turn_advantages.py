"""Two rows of several turns, by hand: P is a token of the policy, - one of somebody else.

row 0: P P - P - - P P, rewards 1 (turn 0), 2 (turn 1), 4 (turn 2);
row 1: P - - P P - - -, rewards 3 (turn 0), 1 (turn 1).
"""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lightrl_workshop.experience import PROMPT, experience

from lightrl import GAE, Advantage, DiscountedReturn, GroupNormalized, TrainingBatch, TurnGAE, TurnNormalized, TurnReturn
from lightrl.ops.turns import over_turns, turn_ends, turn_numbers, turn_starts, turn_sums

SPOKEN = torch.tensor([[1, 1, 0, 1, 0, 0, 1, 1], [1, 0, 0, 1, 1, 0, 0, 0]], dtype=torch.bool)
NAN = torch.nan
REWARDS = torch.tensor([[0.25, 0.75, NAN, 2, NAN, NAN, 0, 4], [3, NAN, NAN, 0, 1, NAN, NAN, NAN]])
VALUES = torch.tensor([[2.0, 9, NAN, 1, NAN, NAN, 3, 9], [1, NAN, NAN, 2, 9, NAN, NAN, NAN]])


def rows_of(mask: torch.Tensor, rewards: torch.Tensor, values: torch.Tensor | None = None, **more) -> TrainingBatch:
    def wide(tensor: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.pad(tensor, (PROMPT, 0))

    n, length = mask.shape
    found = experience(
        [0.0] * n, lengths=[length] * n, token_rewards=wide(rewards), values=None if values is None else wide(values), **more
    )
    found.response_mask = wide(mask)
    return found


def hand_made(**more) -> TrainingBatch:
    return rows_of(SPOKEN, REWARDS, VALUES, **more)


def per_turn(found: torch.Tensor, mask: torch.Tensor) -> list[list[float]]:
    """The number of each turn; all of its tokens must have it."""
    assert (found[~mask] == 0).all()
    assert torch.equal(found, over_turns(found, mask))
    return [row[starts].tolist() for row, starts in zip(found, turn_starts(mask), strict=True)]


def approx(rows: list[list[float]]) -> list[object]:
    return [pytest.approx(row, abs=1e-5) for row in rows]


@pytest.mark.parametrize(("gamma", "expected"), [(1.0, [[7, 6, 4], [4, 1]]), (0.5, [[3, 4, 4], [3.5, 1]]), (0.0, [[1, 2, 4], [3, 1]])])
def test_returns_are_discounted_per_turn(gamma: float, expected: list[list[float]]) -> None:
    rows = hand_made()
    assert per_turn(TurnReturn(gamma).compute(rows).advantages, rows.response_mask) == expected


@pytest.mark.parametrize(
    ("gamma", "lam", "expected"),
    [
        # deltas at gamma 1: 1 + 1 - 2, 2 + 3 - 1, 4 - 3 and 3 + 2 - 1, 1 - 2
        (1.0, 0.0, [[0, 4, 1], [4, -1]]),
        (1.0, 0.5, [[2.25, 4.5, 1], [3.5, -1]]),
        (1.0, 1.0, [[5, 5, 1], [3, -1]]),
        # deltas at gamma 1/2: 1 + 1/2 - 2, 2 + 3/2 - 1, 1 and 3 + 1 - 1, -1; each further one weighs 1/4 as much
        (0.5, 0.5, [[0.1875, 2.75, 1], [2.75, -1]]),
    ],
)
def test_gae_over_turns_has_one_value_per_turn(gamma: float, lam: float, expected: list[list[float]]) -> None:
    rows = hand_made()
    out = TurnGAE(gamma, lam, whitened=False).compute(rows)
    assert per_turn(out.advantages, rows.response_mask) == approx(expected)
    targets = [[a + v for a, v in zip(row, values, strict=True)] for row, values in zip(expected, ([2, 1, 3], [1, 2]), strict=True)]
    assert per_turn(out.returns, rows.response_mask) == approx(targets)


def test_gae_over_turns_is_whitened_over_tokens() -> None:
    rows = hand_made()
    out = TurnGAE(lam=0.0).compute(rows)
    # five tokens of row 0 have 0, 0, 4, 1, 1 and three of row 1 have 4, -1, -1: mean 1, squares 1+1+9+0+0+9+4+4 = 28
    scale = (28 / 7) ** 0.5
    assert per_turn(out.advantages, rows.response_mask) == approx([[-1 / scale, 3 / scale, 0], [3 / scale, -2 / scale]])
    assert per_turn(out.returns, rows.response_mask) == approx([[2, 5, 4], [5, 1]])


def test_turns_are_compared_with_those_of_the_same_number() -> None:
    """Returns 7 against 4, 6 against 1, and 4, which nobody else has reached: half the difference over its square root of a half."""
    rows = hand_made()
    half = 0.5**0.5
    found = per_turn(TurnNormalized(eps=0).compute(rows).advantages, rows.response_mask)
    assert found == approx([[half, half, 0], [-half, -half]])
    # in units of all five returns: mean 4.4, squares 6.76 + 2.56 + .16 + .16 + 11.56 = 21.2
    scale = (21.2 / 4) ** 0.5
    found = per_turn(TurnNormalized(std="batch", eps=0).compute(rows).advantages, rows.response_mask)
    assert found == approx([[1.5 / scale, 2.5 / scale, 0], [-1.5 / scale, -2.5 / scale]])


def test_turns_of_other_groups_and_of_failed_rows_are_not_compared() -> None:
    apart = hand_made(group=[3, 1])
    assert (TurnNormalized().compute(apart).advantages == 0).all()
    failed = hand_made(scorable=[True, False])
    assert (TurnNormalized().compute(failed).advantages == 0).all()


def test_gae_over_tokens_goes_on_at_the_next_sampled_token() -> None:
    """Row 1, gamma 1, lambda 1/2: deltas 3 + 2 - 1, 0 + 9 - 2, 1 - 9."""
    rows = hand_made()
    out = GAE(lam=0.5, whitened=False).compute(rows)
    assert out.advantages[1, rows.response_mask[1]].tolist() == [5.5, 3.0, -8.0]
    assert out.returns[1, rows.response_mask[1]].tolist() == [6.5, 5.0, 1.0]
    discounted = DiscountedReturn(0.5).compute(rows).advantages
    assert discounted[1, rows.response_mask[1]].tolist() == [3.25, 0.5, 1.0]


def test_sums_and_numbers_of_turns() -> None:
    first, last = turn_starts(SPOKEN), turn_ends(SPOKEN)
    assert turn_numbers(SPOKEN).tolist() == [[0, 0, -1, 1, -1, -1, 2, 2], [0, -1, -1, 1, 1, -1, -1, -1]]
    assert turn_sums(REWARDS, SPOKEN)[first].tolist() == [1, 2, 4, 3, 1]
    assert turn_sums(REWARDS, SPOKEN)[~first].eq(0).all()
    assert last.nonzero().tolist() == [[0, 1], [0, 3], [0, 7], [1, 0], [1, 4]]


PARENTS = [
    (TurnReturn(), DiscountedReturn()),
    (TurnNormalized(), GroupNormalized()),
    (TurnNormalized(std="batch"), GroupNormalized("batch")),
]


@pytest.mark.parametrize(("child", "parent"), PARENTS, ids=repr)
@given(scores=st.lists(st.tuples(st.floats(-3, 3, width=16), st.integers(1, 4), st.integers(0, 1)), min_size=1, max_size=6))
def test_with_one_turn_and_one_reward_it_is_the_parent(child: Advantage, parent: Advantage, scores) -> None:
    rewards, lengths, group = (list(column) for column in zip(*scores, strict=True))
    rows = experience(rewards, lengths=lengths, group=group)
    assert torch.allclose(child.compute(rows).advantages, parent.compute(rows).advantages, atol=1e-5)


@given(st.lists(st.tuples(st.floats(-3, 3), st.floats(-3, 3), st.integers(1, 3)), min_size=1, max_size=5), st.floats(0, 1), st.floats(0, 1))
def test_turns_of_one_token_are_tokens_and_gaps_do_not_matter(turns, gamma: float, lam: float) -> None:
    def spelled(gaps: list[int]) -> TrainingBatch:
        mask, rewards, values = [], [], []
        for (reward, value, _), gap in zip(turns, gaps, strict=True):
            mask += [1] + [0] * gap
            rewards += [reward] + [NAN] * gap
            values += [value] + [NAN] * gap
        return rows_of(torch.tensor([mask]).bool(), torch.tensor([rewards]), torch.tensor([values]))

    dense, sparse, wide = spelled([0] * len(turns)), spelled([gap for *_, gap in turns]), spelled([2 * gap for *_, gap in turns])
    pairs = [(TurnReturn(gamma), DiscountedReturn(gamma)), (TurnGAE(gamma, lam), GAE(gamma, lam))]
    for child, parent in pairs:
        over_tokens = parent.compute(dense).advantages[dense.response_mask]
        for rows in (sparse, wide):
            assert torch.allclose(child.compute(rows).advantages[rows.response_mask], over_tokens, atol=1e-5)


@pytest.mark.parametrize("part", [TurnReturn, TurnGAE, TurnNormalized])
def test_impossible_discounts_are_refused(part: type[Advantage]) -> None:
    with pytest.raises(ValueError, match=rf"{part.__name__} needs .*gamma.*1\.5"):
        part(gamma=1.5)


def test_a_row_without_response_tokens_is_compared_with_the_first_turns() -> None:
    def first_two(last: int) -> list[float]:
        rows = experience([1.0, 0.0, 4.0], lengths=[2, 3, last])
        return TurnNormalized().compute(rows).advantages[:2, PROMPT].tolist()

    assert first_two(0) == pytest.approx(first_two(1))
