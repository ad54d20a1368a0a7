import torch
from lightrl_workshop.experience import experience

from lightrl.parts.aggregation import SequenceMean, TokenMean
from lightrl.parts.loss_term import EntropyBonus, PositiveNLL
from lightrl.types import PolicyOutput


def test_a_coefficient_of_zero_needs_nothing() -> None:
    assert [output.name for output in EntropyBonus().outputs] == ["entropy"]
    assert EntropyBonus(coefficient=0).outputs == ()
    assert PositiveNLL().needs == frozenset()


def test_entropy_is_maximised_on_the_tokens_that_carry_a_loss() -> None:
    rows = experience([1.0, 1.0], lengths=[2, 1])
    rows.token_weight[0, 2] = 0
    entropy = torch.rand(2, 4)
    assert torch.equal(EntropyBonus().loss(rows, PolicyOutput(torch.zeros(2, 4), {"entropy": entropy})), -entropy)
    assert EntropyBonus().weights(rows).tolist() == [[0, 0, 0, 1], [0, 0, 1, 0]]


def test_only_rows_above_the_threshold_are_imitated() -> None:
    rows = experience([1.0, 0.5, torch.nan, 2.0], lengths=[1] * 4, scorable=[True, True, False, True])
    assert PositiveNLL(threshold=0.5).weights(rows)[:, 2].tolist() == [1, 0, 0, 1]
    logprobs = torch.full((4, 3), -0.7)
    assert torch.equal(PositiveNLL().loss(rows, PolicyOutput(logprobs)), -logprobs)


def test_each_term_has_its_own_aggregation() -> None:
    assert isinstance(EntropyBonus().aggregation, TokenMean)
    assert isinstance(PositiveNLL(aggregation=SequenceMean()).aggregation, SequenceMean)
