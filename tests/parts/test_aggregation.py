import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lightrl.parts.aggregation import Aggregation, ConstantLength, SequenceMean, SequenceSum, SequenceSumTokenMean, TokenMean
from lightrl.types import Denominators

ALL = [
    TokenMean(),
    SequenceMean(),
    SequenceMean(count_filtered=True),
    SequenceSum(),
    SequenceSum(count_filtered=True),
    ConstantLength(7),
    SequenceSumTokenMean(),
    SequenceSumTokenMean(over="batch"),
]
every = pytest.mark.parametrize("part", ALL, ids=repr)

weights_of_rows = st.lists(
    st.tuples(st.lists(st.sampled_from([0.0, 1.0, 0.5, 2.0]), min_size=4, max_size=4), st.integers(0, 2)), min_size=1, max_size=8
)


def batch(rows) -> tuple[torch.Tensor, torch.Tensor, Denominators]:
    weight = torch.tensor([w for w, _ in rows], dtype=torch.float64)
    group = torch.tensor([g for _, g in rows])
    return weight, group, counts(weight, group)


def counts(weight: torch.Tensor, group: torch.Tensor) -> Denominators:
    filled = weight.sum(1) > 0
    return Denominators(weight.sum().item(), int(filled.sum()), len(weight), len(set(group[filled].tolist())))


@every
@given(rows=weights_of_rows, cut=st.integers(0, 8))
def test_splitting_the_batch_changes_nothing(part: Aggregation, rows, cut: int) -> None:
    weight, group, total = batch(rows)
    parts = [part.weights(weight[rows], group[rows], total) for rows in (slice(0, cut), slice(cut, None))]
    assert torch.allclose(torch.cat(parts), part.weights(weight, group, total))


@every
@given(rows=weights_of_rows, padding=st.integers(1, 5))
def test_padding_changes_nothing(part: Aggregation, rows, padding: int) -> None:
    weight, group, total = batch(rows)
    wide = part.weights(torch.nn.functional.pad(weight, (0, padding)), group, total)
    assert torch.equal(wide[:, :4], part.weights(weight, group, total))
    assert (wide[:, 4:] == 0).all()


@every
@given(rows=weights_of_rows, random=st.randoms())
def test_the_order_of_rows_changes_nothing(part: Aggregation, rows, random) -> None:
    weight, group, total = batch(rows)
    order = list(range(len(rows)))
    random.shuffle(order)
    assert torch.allclose(part.weights(weight[order], 9 - group[order], total), part.weights(weight, group, total)[order])


@every
@given(rows=weights_of_rows)
def test_masked_tokens_weigh_nothing_and_others_something(part: Aggregation, rows) -> None:
    weight, group, total = batch(rows)
    out = part.weights(weight, group, total)
    assert out.isfinite().all()
    assert torch.equal(out > 0, weight > 0)


@pytest.mark.parametrize(
    ("part", "total"),
    [
        (TokenMean(), lambda c: 1),
        (SequenceMean(), lambda c: 1),
        (SequenceMean(count_filtered=True), lambda c: c.rows / c.all_rows),
        (SequenceSum(), lambda c: c.tokens / c.rows),
        (SequenceSum(count_filtered=True), lambda c: c.tokens / c.all_rows),
        (ConstantLength(7), lambda c: c.tokens / c.rows / 7),
        (SequenceSumTokenMean(), lambda c: c.rows / c.prompts),
        (SequenceSumTokenMean(over="batch"), lambda c: c.rows),
    ],
    ids=lambda value: repr(value) if isinstance(value, Aggregation) else "",
)
@given(rows=weights_of_rows)
def test_what_the_weights_add_up_to(part: Aggregation, total, rows) -> None:
    weight, group, numbers = batch(rows)
    expected = total(numbers) if numbers.tokens else 0
    assert part.weights(weight, group, numbers).sum().item() == pytest.approx(expected)


@every
def test_a_step_in_which_everything_is_masked_has_no_loss(part: Aggregation) -> None:
    weight, group = torch.zeros(3, 4), torch.tensor([0, 0, 1])
    assert (part.weights(weight, group, counts(weight, group)) == 0).all()


@every
def test_an_empty_micro_batch(part: Aggregation) -> None:
    out = part.weights(torch.zeros(0, 4), torch.zeros(0, dtype=torch.long), Denominators(tokens=3, rows=2, all_rows=2, prompts=1))
    assert out.shape == (0, 4)


@pytest.mark.parametrize("length", [0, -3])
def test_a_constant_length_must_be_positive(length: int) -> None:
    with pytest.raises(ValueError, match=rf"length .*{length}"):
        ConstantLength(length)


def test_which_ones_suit_a_row_constant() -> None:
    assert [part.divides_by_row_length for part in ALL] == [False, True, True, False, False, False, True, True]
