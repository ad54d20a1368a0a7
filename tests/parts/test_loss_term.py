import pytest
import torch
from lightrl_workshop.experience import experience
from torch import Tensor

from lightrl.algorithms.algorithm import GroupRelative
from lightrl.parts.advantage import NoAdvantage
from lightrl.parts.aggregation import SequenceMean, TokenMean
from lightrl.parts.critic import ValueHead
from lightrl.parts.loss_term import EntropyBonus, LossTerm, PositiveNLL, RowLoss
from lightrl.parts.objective import Likelihood
from lightrl.ranks import ALONE
from lightrl.training.online.loss import StepLoss, terms_of
from lightrl.types import PolicyOutput, TrainingBatch, WithStatistics


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


class Everything(RowLoss):
    """r log pi(y) + log pi_old(y) + 10 log pi_ref(y) + 100 V(x) + 1000 |y|."""

    needs = frozenset({"ref_logprobs", "values"})

    def row_loss(self, completions: Likelihood, experience: TrainingBatch, output: PolicyOutput) -> WithStatistics:
        value = experience.first_sampled(output.needed("values"))
        known = completions.old + 10 * completions.reference + 100 * value + 1000 * completions.tokens
        return WithStatistics(experience.rewards * completions.logprob + known, {"row/reward": experience.rewards})


class Rowwise(GroupRelative):
    """Learns from whole rows alone."""

    advantage = NoAdvantage()
    critic = ValueHead()
    rows: LossTerm | None = Everything()


def rows_of_two_turns() -> TrainingBatch:
    """Two prompt tokens, and a turn of one token, another author's token and a turn of two; one token; and a row that has failed."""
    numbers = torch.tensor([[9.0, 9, 1, 9, 2, 3], [9, 9, 4, 9, 9, 9], [9, 9, 5, 9, 9, 9]])
    mask = torch.tensor([[0, 0, 1, 0, 1, 1], [0, 0, 1, 0, 0, 0], [0, 0, 1, 0, 0, 0]]).bool()
    known = torch.where(mask, numbers, 0.0)
    return experience(
        [2.0, 3.0, torch.nan],
        lengths=[4, 1, 1],
        scorable=[True, True, False],
        gaps=[[1], [], []],
        old_logprobs=known,
        ref_logprobs=2 * known,
        values=known,
    )


def outputs_of(rows: TrainingBatch) -> tuple[Tensor, Tensor, PolicyOutput]:
    logprobs, values = (-rows.old_logprobs).requires_grad_(), (0.01 * rows.old_logprobs).requires_grad_()
    return logprobs, values, PolicyOutput(logprobs, values=values)


def test_a_row_loss_sees_reward_values_and_log_probs_of_each_row() -> None:
    """Sums over the sampled tokens: 6 and 4. 2 x -6 + 6 + 120 + 100 x 0.01 + 3000 and 3 x -4 + 4 + 80 + 100 x 0.04 + 1000."""
    rows = rows_of_two_turns()
    part = Everything()
    found = part.loss(rows, outputs_of(rows)[2])
    assert found.value[:2, 2].tolist() == pytest.approx([3115.0, 1076.0])
    assert part.weights(rows).tolist() == [[0, 0, 1, 0, 1, 1], [0, 0, 1, 0, 0, 0], [0] * 6]


def test_its_denominators_are_rows_and_a_failed_row_has_no_gradient() -> None:
    rows = rows_of_two_turns()
    logprobs, values, output = outputs_of(rows)
    loss = StepLoss(terms_of(Rowwise()), rows, ALONE)
    share = loss.share(rows, output)
    assert float(share.shares["rows_loss"]) == pytest.approx((3115.0 + 1076.0) / 2)
    share.loss.backward()
    assert logprobs.grad is not None
    assert values.grad is not None
    assert logprobs.grad.tolist() == [[0, 0, 1, 0, 1, 1], [0, 0, 1.5, 0, 0, 0], [0] * 6]
    assert values.grad.tolist() == [[0, 0, 50, 0, 0, 0], [0, 0, 50, 0, 0, 0], [0] * 6]
    assert [one.value.nan_to_num(-1).tolist() for one in share.statistics if one.name == "row/reward"] == [[2, 3, -1]]


def test_a_row_of_which_no_token_counts_leaves_the_denominators() -> None:
    rows = rows_of_two_turns()
    rows.token_weight[1] = 0
    loss = StepLoss(terms_of(Rowwise()), rows, ALONE)
    assert float(loss.share(rows, outputs_of(rows)[2]).shares["rows_loss"]) == pytest.approx(3115.0)


def test_a_critic_that_nobody_fits_is_refused_and_values_without_a_critic() -> None:
    class WithoutValues(Everything):
        needs = frozenset({"ref_logprobs"})

    with pytest.raises(ValueError, match=r"ValueHead would be trained and never used: NoAdvantage"):
        Rowwise(rows=WithoutValues())
    with pytest.raises(ValueError, match=r"Everything needs values, and no critic"):
        Rowwise(critic=None)
