"""Rejection of tokens and rows at which engine and trainer disagree, by hand."""

import math

import pytest
import torch
from lightrl_zoo import DivergenceRejection, GeometricRejection

from lightrl import TruncatedImportance, WithStatistics

OLD, ENGINE = torch.tensor([[-1.0, -2.0, 0.0], [-1.0, -2.0, 0.0]]), torch.tensor([[-1.003, -2.0, 9.0], [-1.001, -2.0, 9.0]])
SAMPLED = torch.tensor([[True, True, False]] * 2)


def test_geometric_rejection_drops_rows_by_their_mean_ratio() -> None:
    """Means of 1.5e-3 and 5e-4 nats against a band of about 1e-3."""
    found = GeometricRejection().weights(OLD, ENGINE, SAMPLED)
    assert found.value[:, :2].tolist() == [[0, 0], [1, 1]]
    assert found.statistics["correction/rejected"].tolist() == [1, 0]
    assert found.statistics["correction/geometric"].tolist() == pytest.approx([math.exp(0.0015), math.exp(0.0005)])


def test_what_is_kept_may_have_the_weights_of_another_correction() -> None:
    found = GeometricRejection(importance=TruncatedImportance()).weights(OLD, ENGINE, SAMPLED)
    assert isinstance(found, WithStatistics)
    assert found.value[1, :2].tolist() == pytest.approx([math.exp(0.001), 1.0])
    assert found.value[0].tolist() == [0, 0, 0]
    assert {"correction/rho_mean", "correction/rejected"} <= found.statistics.keys()


def test_divergence_rejection_drops_tokens_or_rows_by_hand() -> None:
    """Differences of 0.2 and -0.2 cancel in a mean ratio, and not in a divergence."""
    old = torch.tensor([[-1.0, -2.0, 0.0], [-1.0, -2.0, 0.0]], dtype=torch.float64)
    engine = torch.tensor([[-1.2, -1.8, 9.0], [-1.0, -2.1, 9.0]], dtype=torch.float64)
    up, down, small = (math.exp(d) - 1 - d for d in (0.2, -0.2, 0.1))

    def kept(limit: float, **arguments: str) -> list[list[float]]:
        return DivergenceRejection(limit, **arguments).weights(old, engine, SAMPLED).value[:, :2].tolist()  # type: ignore[arg-type]

    assert GeometricRejection().weights(old, engine, SAMPLED).value[0, :2].tolist() == [1, 1]
    mean = (up + down) / 2
    assert kept(mean + 1e-9) == [[1, 1], [1, 1]]
    assert kept(mean - 1e-9) == [[0, 0], [1, 1]]
    assert kept(up + down - 1e-9, over="sum") == kept(up - 1e-9, over="max") == [[0, 0], [1, 1]]
    assert kept(up + down + 1e-9, over="sum") == kept(up + 1e-9, over="max") == [[1, 1], [1, 1]]
    assert kept(0.019, over="token") == [[0, 1], [1, 1]]
    assert kept(0.019, over="token", estimator="k2") == [[0, 0], [1, 1]]
    assert kept(0.02 + 1e-9, over="token", estimator="k2") == [[1, 1], [1, 1]]
    found = DivergenceRejection(0.019, over="token").weights(old, engine, SAMPLED).statistics
    assert found["correction/rejected"].tolist() == [0.5, 0]
    assert found["correction/divergence"].tolist() == pytest.approx([mean, small / 2])


def test_a_rejection_keeps_numbers_where_nothing_was_sampled_or_all_differs() -> None:
    old = torch.tensor([[-400.0, -1.0], [-1.0, -1.0]])
    mask = torch.tensor([[True, True], [False, False]])
    found = DivergenceRejection(over="token", importance=TruncatedImportance()).weights(
        old, torch.tensor([[-1.0, -1.0], [-1.0, -1.0]]), mask
    )
    assert found.value.isfinite().all()
    assert found.value[0].tolist() == [0, 1]
    assert found.statistics["correction/rejected"].nan_to_num(-1).tolist() == [0.5, -1]


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: GeometricRejection(low=1.1), "needs .* got "),
        (lambda: GeometricRejection(high=0.9), "needs .* got "),
        (lambda: DivergenceRejection(0.0), "needs .* got "),
        (lambda: DivergenceRejection(estimator="k1"), r"estimator to be 'k2' or 'k3', got estimator='k1'"),
        (lambda: DivergenceRejection(over="row"), r"over to be 'token' or .*, got over='row'"),
    ],
)
def test_impossible_bounds_are_refused(build, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        build()
