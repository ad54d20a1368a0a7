"""Two rows of 1 and 3 tokens with token losses 1 and 3, by hand."""

import pytest
import torch

from lightrl.parts.aggregation import Aggregation, ConstantLength, SequenceMean, SequenceSum, SequenceSumTokenMean, TokenMean
from lightrl.types import Denominators

LOSS = torch.tensor([[1.0, 0, 0], [3, 3, 3]])
WEIGHT = torch.tensor([[1.0, 0, 0], [1, 1, 1]])
GROUP = torch.tensor([0, 0])
COUNTS = Denominators(tokens=4, rows=2, all_rows=2, prompts=1)


@pytest.mark.parametrize(
    ("aggregation", "loss"),
    [(TokenMean(), 2.5), (SequenceMean(), 2.0), (SequenceSum(), 5.0), (ConstantLength(4), 1.25), (SequenceSumTokenMean(), 4.0)],
    ids=repr,
)
def test_toy(aggregation: Aggregation, loss: float) -> None:
    assert (aggregation.weights(WEIGHT, GROUP, COUNTS) * LOSS).sum().item() == pytest.approx(loss)


def test_row_by_row_the_token_mean_stays_what_it_is() -> None:
    """The mean of per-micro-batch means would be 2.0; rank by rank, with the global count, it is 2.5."""
    parts = [(TokenMean().weights(WEIGHT[i : i + 1], GROUP[i : i + 1], COUNTS) * LOSS[i : i + 1]).sum().item() for i in range(2)]
    assert sum(parts) == pytest.approx(2.5)
    assert sum(2 * part for part in parts) / 2 == pytest.approx(2.5)


def test_the_mean_over_a_rows_tokens_is_not_divided_twice() -> None:
    assert (SequenceMean().weights(WEIGHT, GROUP, COUNTS) * LOSS).sum().item() != pytest.approx(1.0)


def test_filtered_rows_leave_the_denominator() -> None:
    filtered = WEIGHT * torch.tensor([[1.0], [0.0]])
    loss = (TokenMean().weights(filtered, GROUP, Denominators(tokens=1, rows=1, all_rows=2, prompts=1)) * LOSS).sum().item()
    assert loss == pytest.approx(1.0)
    assert loss != pytest.approx(0.25)


def test_token_mean_lets_long_rows_weigh_more() -> None:
    """Lengths 500 and 1500 with advantages 1 and .5."""
    weight = (torch.arange(1500)[None] < torch.tensor([[500], [1500]])).float()
    weights = TokenMean().weights(weight, GROUP, Denominators(tokens=2000, rows=2, all_rows=2, prompts=1))
    assert (weights * torch.tensor([[1.0], [0.5]])).sum(1).tolist() == pytest.approx([0.25, 0.375])


def test_under_the_sequence_mean_a_token_of_a_long_row_weighs_less() -> None:
    weights = SequenceMean().weights(WEIGHT, GROUP, COUNTS)
    assert weights[:, 0].tolist() == pytest.approx([0.5, 0.166667], abs=1e-5)


def test_masked_means_per_micro_batch_would_depend_on_the_split() -> None:
    """2.5 for the whole batch and 4.0 row by row in one repository; ours is 4.0 / P either way."""
    rows = [SequenceSumTokenMean().weights(WEIGHT[i : i + 1], GROUP[i : i + 1], COUNTS) * LOSS[i : i + 1] for i in range(2)]
    assert sum(row.sum().item() for row in rows) == pytest.approx(4.0)
