"""The loss of a step is the sum of its terms, and a micro-batch says what it adds without changing anything."""

import torch
from lightrl_workshop.experience import experience

from lightrl import ActorCritic, EntropyBonus, GroupSampler, KLPenalty, PositiveNLL, ValueHead
from lightrl.ranks import ALONE
from lightrl.training.online.loss import StepLoss, terms_of
from lightrl.training.online.terms import ValueTerm
from lightrl.training.steps.learner import MicroBatchLoss
from lightrl.types import PolicyOutput, TrainingBatch


def rows() -> TrainingBatch:
    noise = torch.rand(2, 4, 5, generator=torch.Generator().manual_seed(0))
    found = experience([1.0, 0.0, 1.0, 0.5], lengths=[1, 3, 2, 3], group=[0, 0, 1, 1], values=noise[0], ref_logprobs=-noise[1])
    found.returns, found.advantages = noise[1], noise[0] - 0.5
    return found


def algorithm() -> ActorCritic:
    return ActorCritic(
        sampler=GroupSampler(2), critic=ValueHead(), kl=KLPenalty(loss_coefficient=0.1), entropy=EntropyBonus(0.01),
        positive_nll=PositiveNLL(0.2),
    )  # fmt: skip


def outputs(batch: TrainingBatch, mask: torch.Tensor) -> PolicyOutput:
    return PolicyOutput(batch.old_logprobs - 0.1, {"entropy": batch.values + 1}, values=batch.values * 0.5)


def loss_of(batch: TrainingBatch) -> StepLoss:
    return StepLoss(terms_of(algorithm()), batch, ALONE)


def share_of(loss: StepLoss, micro: TrainingBatch) -> MicroBatchLoss:
    return loss.share(micro, outputs(micro, loss.tokens(micro)))


def test_the_terms_stand_in_the_order_in_which_they_are_added() -> None:
    names = ["policy_loss", "kl_loss", "entropy_loss", "positive_nll_loss", "value_loss"]
    assert [term.name for term in terms_of(algorithm())] == names
    assert list(share_of(loss_of(rows()), rows()).shares) == names


def test_the_shares_of_the_micro_batches_add_up_to_the_loss_of_the_step() -> None:
    loss = loss_of(rows())
    whole, parts = share_of(loss, rows()), [share_of(loss, rows().select(cut)) for cut in ([0, 3], [1], [2])]
    assert abs(float(whole.loss) - sum(whole.shares.values())) < 1e-6
    for name, share in whole.shares.items():
        assert abs(share - sum(part.shares[name] for part in parts)) < 1e-6, name


def test_a_micro_batch_gives_its_statistics_and_the_same_again() -> None:
    loss, batch = loss_of(rows()), rows()
    first, second = share_of(loss, batch), share_of(loss, batch)
    assert first.shares == second.shares
    assert [entry.name for entry in first.statistics] == [entry.name for entry in second.statistics]
    assert {"approx_kl", "kl", "entropy", "ratio/mean", "clip_ratio/low", "value_clip_ratio"} <= {e.name for e in first.statistics}
    assert not any(entry.value.requires_grad for entry in first.statistics)


def test_the_critic_alone_is_the_same_term_as_beside_the_policy() -> None:
    batch = rows()
    alone = share_of(StepLoss([ValueTerm(algorithm().critic)], batch, ALONE), batch)
    assert alone.shares == {"value_loss": share_of(loss_of(batch), batch).shares["value_loss"]}


def test_a_step_without_any_token_is_empty_and_still_has_a_row() -> None:
    batch = rows()
    batch.token_weight, batch.scorable = torch.zeros_like(batch.token_weight), torch.zeros_like(batch.scorable)
    loss = loss_of(batch)
    assert loss.empty
    assert len(loss.rows_of(batch)) == 1
    assert not loss_of(rows()).empty
