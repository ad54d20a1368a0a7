"""Mistakes that explanations and trainers have made, each guarded by a test that fails when it is made here."""

from __future__ import annotations

import math
from typing import Any, Literal

import pytest
import torch
from lightrl_workshop import on_ranks, quiet_trainer
from lightrl_workshop.experience import PROMPT, experience

from lightrl import (
    GAE,
    Algorithm,
    ConstantLength,
    DecoupledClip,
    Denominators,
    DigitSorting,
    Experience,
    Function,
    GroupCentered,
    GroupNormalized,
    GroupRelative,
    GroupSampler,
    KLPenalty,
    LeaveOneOut,
    MaskTruncated,
    NoClip,
    PolicyGradient,
    PolicyOptimization,
    PromptData,
    Rollout,
    RowReward,
    SequenceMean,
    SymmetricClip,
    TinyPolicy,
    TokenMean,
    TransformersEngine,
    broadcast_to_tokens,
    whiten,
)
from lightrl.ranks import ALONE
from lightrl.rewards.reward_set import RewardSet
from lightrl.training.online.experience import RolloutRewards, experience_of, with_advantages
from lightrl.training.online.loss import StepLoss, terms_of
from lightrl.training.online.predictions import Predictions
from lightrl.types import PolicyOutput


def per_row(part: Any, rewards: list[float], **more: Any) -> list[float]:
    rows = experience(rewards, **more)
    advantages = part.compute(rows).advantages
    return [advantages[i, rows.response_mask[i]][0].item() for i in range(len(rewards))]


def loss_and_gradient(
    algorithm: Algorithm, rows: Experience, change: float = 0.0, cuts: list[list[int]] | None = None
) -> tuple[float, Any]:
    """The policy loss of one optimizer step made of these micro-batches, and its gradient on the log-probs."""
    logprobs = (rows.old_logprobs + change).requires_grad_()
    total = torch.zeros(())
    for cut in cuts or [list(range(len(rows)))]:
        total = total + StepLoss(terms_of(algorithm), rows, ALONE).share(rows.select(cut), PolicyOutput(logprobs=logprobs[cut])).loss
    total.backward()
    return total.item(), logprobs.grad


# popular explanations


def test_below_the_bound_a_negative_advantage_has_no_gradient_and_is_not_pushed_up() -> None:
    log_ratio = torch.tensor([[0.7]]).log().requires_grad_()
    out = SymmetricClip(0.2).surrogate(log_ratio, torch.tensor([[-2.1]]), torch.zeros(1, 1), torch.ones(1, 1, dtype=torch.bool))
    out.loss.sum().backward()
    assert out.loss.item() == pytest.approx(1.68)
    assert log_ratio.grad.item() == 0


def test_nothing_is_expected_after_the_last_token() -> None:
    """Reward 2 and value 5 at the end give -3; bootstrapping from a state that is not there would give -2.1."""
    values = torch.tensor([[0.0, 0.0, 5.0, 1.0]])
    token_rewards = torch.tensor([[0.0, 0.0, 2.0, 0.0]])
    rows = experience([2.0], lengths=[1], padding=1, values=values, token_rewards=token_rewards)
    assert GAE(gamma=0.9, whitened=False).compute(rows).advantages[0, PROMPT].item() == pytest.approx(-3.0)


def test_the_two_best_known_examples_use_different_deviations() -> None:
    assert per_row(GroupNormalized(ddof=0), [2.0, 10.0, 3.0])[1] == pytest.approx(1.4049, abs=1e-4)
    assert per_row(GroupNormalized(ddof=1), [3.8, 5.2, 6.1])[2] == pytest.approx(0.9203, abs=1e-4)


def test_grpo_has_a_ratio_per_token_and_not_one_per_row() -> None:
    """Only the second token moves; only its clipped surrogate stops."""
    rows = experience([1.0, 0.0], lengths=[2, 2])
    algorithm = GroupRelative(sampler=GroupSampler(2))
    rows.advantages = algorithm.advantage.compute(rows).advantages
    change = torch.zeros_like(rows.old_logprobs)
    change[0, PROMPT + 1] = 0.5
    _, gradient = loss_and_gradient(algorithm, rows, change)
    assert gradient[0, PROMPT].item() < 0
    assert gradient[0, PROMPT + 1].item() == 0


def test_the_reward_at_the_end_reaches_tokens_without_a_reward_of_their_own() -> None:
    rows = experience([1.0, 0.0], values=torch.zeros(2, PROMPT + 3))
    for part in (GroupNormalized(), GAE(whitened=False)):
        advantages = part.compute(rows).advantages
        assert (advantages[0, PROMPT:] != 0).all()


def test_the_mean_over_tokens_is_not_taken_twice() -> None:
    """Lengths 1 and 3 with losses 1 and 3: (1 + 3) / 2 = 2, and 1.0 if a mean follows the division by the length."""
    weights = SequenceMean().weights(torch.tensor([[1.0, 0, 0], [1, 1, 1]]), torch.zeros(2, dtype=torch.long), Denominators(4, 2, 2, 1))
    assert (weights * torch.tensor([[1.0, 0, 0], [3, 3, 3]])).sum().item() == pytest.approx(2.0)


def test_a_group_without_spread_is_no_division_by_zero() -> None:
    assert per_row(GroupNormalized(eps=0), [0.3] * 4) == [0.0] * 4


def test_without_a_penalty_there_is_no_reference() -> None:
    assert "ref_logprobs" not in GroupRelative(kl=None).needs
    assert "ref_logprobs" not in GroupRelative(kl=KLPenalty(loss_coefficient=0.0)).needs


def test_advantages_are_no_ranks() -> None:
    """z-scores grow with the distance to the others; ranks would not."""
    near, far = per_row(GroupCentered(), [0.0, 1.0, 1.1]), per_row(GroupCentered(), [0.0, 1.0, 10.0])
    assert far[2] - far[1] > 50 * (near[2] - near[1])
    assert max(per_row(GroupNormalized(), [0.0] * 63 + [1.0])) > 7


def test_overlong_filtering_masks_the_whole_row_and_not_its_tail() -> None:
    rows = experience([1.0, 0.0], lengths=[5, 2], finish_reason=["length", "stop"])
    assert (MaskTruncated().weights(rows)[0] == 0).all()
    assert (MaskTruncated().weights(rows)[1] == 1).all()


# edge cases


def test_infinite_and_missing_scores_are_no_zeros() -> None:
    """A reward of zero is a score; a missing one leaves the group."""
    part = GroupNormalized()
    with_zero = per_row(part, [1.0, 0.0, 0.0])
    without = per_row(part, [1.0, 0.0, math.inf], scorable=[True, True, False])
    assert without[:2] == pytest.approx(per_row(part, [1.0, 0.0]))
    assert without[2] == 0
    assert with_zero[0] != pytest.approx(without[0], abs=1e-3)


@pytest.mark.parametrize("part", [GroupNormalized(), GroupCentered(), LeaveOneOut()])
def test_one_scorable_row_has_nothing_to_be_compared_with(part: Any) -> None:
    """The sample deviation of one number is NaN, and verl gives such a row its raw score."""
    assert per_row(part, [5.0, math.nan], scorable=[True, False]) == [0.0, 0.0]


def test_a_group_of_one_is_refused_when_built() -> None:
    with pytest.raises(ValueError, match="group_size"):
        GroupRelative(sampler=GroupSampler(1))


def test_whitening_one_token_is_zero() -> None:
    assert whiten(torch.tensor([[3.0, 9.0]]), torch.tensor([[True, False]])).tolist() == [[0.0, 0.0]]


def test_an_empty_completion_counts_in_the_statistics_and_has_no_loss() -> None:
    rows = experience([1.0, 0.0, 0.0], lengths=[2, 0, 3])
    algorithm = GroupRelative(sampler=GroupSampler(3))
    rows.advantages = algorithm.advantage.compute(rows).advantages
    assert rows.advantages[0, PROMPT].item() == pytest.approx(per_row(GroupNormalized(), [1.0, 0.0, 0.0])[0])
    loss, gradient = loss_and_gradient(algorithm, rows)
    assert math.isfinite(loss)
    assert (gradient[1] == 0).all()


def test_a_log_ratio_that_overflows_is_bounded() -> None:
    rows = experience([0.0, 1.0])
    algorithm = GroupRelative(sampler=GroupSampler(2), clip=NoClip())
    rows.advantages = algorithm.advantage.compute(rows).advantages
    loss, gradient = loss_and_gradient(algorithm, rows, change=500.0)
    assert math.isfinite(loss)
    assert gradient.isfinite().all()


class Told(RowReward):
    """The score that a completion stands for."""

    runs = "inline"

    def score(self, prompt: Any, completion: str, **columns: Any) -> float:
        return float(completion)


@pytest.mark.parametrize("normalize", [None, "group"])
def test_an_empty_completion_keeps_its_score_from_the_reward_to_the_advantage(normalize: Literal["group"] | None) -> None:
    """No token holds it, and it counts as much as that of a completion of one token."""
    algorithm = GroupRelative(sampler=GroupSampler(3))

    def advantages(last: int) -> list[float]:
        rows = experience([0.0, 0.0, 0.0], lengths=[2, 3, last])
        rollout = Rollout(**{name: getattr(rows, name) for name in Rollout.__dataclass_fields__})
        rollout.completions = ["1.0", "0.0", "-4.0"]
        rewards = RewardSet({"told": Told(weight=0.5, normalize=normalize)})
        scored = rewards.score(rollout)
        predictions = Predictions(rows.old_logprobs, values=None, ref_logprobs=None)
        row_rewards = rewards.row_rewards(scored)
        given = RolloutRewards(*rewards.token_rewards(scored), row_rewards)
        made, _ = experience_of(scored, given, algorithm, predictions)
        assert made.rewards.tolist() == pytest.approx(row_rewards.tolist())
        assert sum(part[2].item() for part in rewards.contributions(scored).values()) == pytest.approx(made.rewards[2].item())
        return with_advantages(made, algorithm, ALONE, 0)[0].advantages[:2, PROMPT].tolist()

    assert advantages(0) == pytest.approx(advantages(1))


@pytest.mark.parametrize("clip", [PolicyGradient(), NoClip()], ids=str)
@pytest.mark.parametrize("nats", [-25.0, 25.0, 500.0])
def test_beyond_20_nats_the_bound_on_the_ratio_leaves_the_gradient_of_a_token(clip: Any, nats: float) -> None:
    """A clamp in front of the clip scheme would take it away: log pi would be a constant there."""
    rows = experience([0.0, 1.0])
    algorithm = GroupRelative(sampler=GroupSampler(2), clip=clip)
    rows.advantages = algorithm.advantage.compute(rows).advantages
    gradient = loss_and_gradient(algorithm, rows, change=nats)[1]
    held = max(-20.0, min(20.0, nats))
    expected = loss_and_gradient(algorithm, rows, change=0.0)[1] * (1 if isinstance(clip, PolicyGradient) else math.exp(held))
    assert torch.allclose(gradient, expected, rtol=1e-5)
    assert gradient.abs().max() > 0


def test_a_group_without_signal_still_has_the_gradient_of_the_penalty() -> None:
    rows = experience([1.0, 1.0])
    rows.ref_logprobs = rows.old_logprobs - 0.5
    with_penalty = GroupRelative(sampler=GroupSampler(2), kl=KLPenalty(loss_coefficient=0.1))
    assert loss_and_gradient(with_penalty, rows)[1].abs().max() > 0
    assert loss_and_gradient(GroupRelative(sampler=GroupSampler(2)), rows)[1].abs().max() == 0


# what trainers got wrong


def test_the_mean_of_micro_batch_means_is_not_the_mean() -> None:
    """Toy: 2.5 over the step, 2.0 as the mean of two micro-batches' means; also ranks and accumulation (NeMo-RL 212, TRL 3021)."""
    rows = experience([0.0, 0.0], lengths=[1, 3])
    rows.advantages = torch.where(rows.response_mask, torch.tensor([[-1.0], [-3.0]]), 0.0)
    algorithm = GroupRelative(sampler=GroupSampler(2), aggregation=TokenMean())
    whole, gradient = loss_and_gradient(algorithm, rows)
    split, of_split = loss_and_gradient(algorithm, rows, cuts=[[0], [1]])
    assert whole == split == pytest.approx(2.5)
    assert torch.equal(gradient, of_split)


def test_the_denominator_is_the_optimizer_steps_and_not_the_rollouts() -> None:
    """A minibatch of a rollout is normalised by its own rows (TRL 5619): half the rows give the loss of a whole rollout of them."""
    rows = experience([1.0, 0.0, 1.0, 0.0], lengths=[2, 2, 2, 2], group=[0, 0, 1, 1])
    algorithm = GroupRelative(sampler=GroupSampler(2), aggregation=TokenMean(), minibatches=2)
    rows.advantages = algorithm.advantage.compute(rows).advantages
    half = loss_and_gradient(algorithm, rows.select([0, 1]))[1]
    alone = experience([1.0, 0.0], lengths=[2, 2])
    alone.advantages = algorithm.advantage.compute(alone).advantages
    assert torch.allclose(half, loss_and_gradient(algorithm, alone)[1])


def test_a_constant_length_does_not_divide_by_the_padded_width() -> None:
    """verl divides by the width of the batch at hand unless told otherwise, so that padding changes the step."""
    algorithm = GroupRelative(sampler=GroupSampler(2), aggregation=ConstantLength(length=4))
    narrow, wide = experience([1.0, 0.0]), experience([1.0, 0.0], padding=7)
    for rows in (narrow, wide):
        rows.advantages = algorithm.advantage.compute(rows).advantages
    one, other = loss_and_gradient(algorithm, narrow)[1], loss_and_gradient(algorithm, wide)[1]
    assert torch.allclose(one, other[:, : one.shape[1]])


def test_masked_tokens_leave_the_denominator() -> None:
    """Zeroing the loss and dividing by the padded length shrinks the gradient (UniRL 448)."""
    rows = experience([1.0, 0.0], lengths=[3, 3])
    algorithm = GroupRelative(sampler=GroupSampler(2), aggregation=TokenMean())
    rows.advantages = algorithm.advantage.compute(rows).advantages
    full = loss_and_gradient(algorithm, rows)[1]
    rows.token_weight[1] = 0
    assert torch.allclose(loss_and_gradient(algorithm, rows)[1][0], 2 * full[0])


def test_a_reward_per_row_is_spread_over_its_row_even_in_a_square_batch() -> None:
    """[B] times [B, T] broadcasts along the wrong axis without a word when B == T."""
    rows = experience([1.0, 2.0, 3.0], lengths=[3, 3, 3], padding=0)
    square = rows.select([0, 1, 2])
    assert broadcast_to_tokens(square.rewards, square)[:, PROMPT:].tolist() == [[1.0] * 3, [2.0] * 3, [3.0] * 3]
    few = experience([1.0, 2.0, 3.0, 4.0, 5.0], lengths=[3] * 5)
    assert few.response_mask.shape == (5, 5)
    assert broadcast_to_tokens(few.rewards, few)[:, PROMPT].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]


class Judge(RowReward):
    """Has no opinion of an empty completion."""

    runs = "inline"

    def score(self, prompt: Any, completion: str, **columns: Any) -> float | None:
        return None if completion == "" else -1.0


def test_abstaining_is_not_a_score_of_zero() -> None:
    """A zero would reward doing nothing among siblings at -1 (TRL 6427)."""
    rows = experience([0.0, 0.0], lengths=[0, 2])
    rollout = Rollout(**{name: getattr(rows, name) for name in Rollout.__dataclass_fields__})
    scored = RewardSet({"judge": Judge()}).score(rollout)
    assert scored.scorable.tolist() == [False, True]
    assert math.isnan(scored.reward_parts["judge"][0])


def test_a_penalty_in_the_reward_is_inside_the_baseline() -> None:
    """RLOO's leave-one-out is over rewards that have the KL already: R - KL, not a KL taken from the advantage later."""
    algorithm = GroupRelative(sampler=GroupSampler(2), advantage=LeaveOneOut(), kl=KLPenalty(estimator="k1", reward_coefficient=0.5))
    rows = experience([1.0, 1.0], lengths=[1, 1])
    reference = rows.old_logprobs.clone()
    reference[0, PROMPT] -= 1.0
    predictions = Predictions(rows.old_logprobs, values=None, ref_logprobs=reference)
    given = RolloutRewards(rows.token_rewards, rows.step_ends, rows.rewards)
    made, _ = experience_of(rows, given, algorithm, predictions)
    found, _ = with_advantages(made, algorithm, ALONE, 0)
    assert found.advantages[:, PROMPT].tolist() == pytest.approx([-0.5, 0.5])


def test_statistics_of_the_batch_are_over_all_ranks() -> None:
    """One group per rank: over the batch 1, -1, 0, 0; rank by rank the first would be 1 / .707."""
    algorithm = GroupRelative(sampler=GroupSampler(2), advantage=GroupNormalized(std="batch", eps=0))
    rows = [experience([1.0, 0.0]), experience([1.0, 1.0])]
    found = on_ranks(2, lambda rank, ranks: with_advantages(rows[rank], algorithm, ranks, rank)[0])
    assert found[0].advantages[:, PROMPT].tolist() == pytest.approx([1.0, -1.0])
    assert found[1].advantages[:, PROMPT].tolist() == [0.0, 0.0]


def test_returns_are_taken_before_whitening() -> None:
    values = torch.rand(2, PROMPT + 3, generator=torch.Generator().manual_seed(0))
    rows = experience([1.0, 0.0], values=values)
    plain, whitened = GAE(whitened=False).compute(rows), GAE().compute(rows)
    assert torch.equal(plain.returns, whitened.returns)
    assert torch.allclose(plain.returns, torch.where(rows.response_mask, plain.advantages + values, 0.0))


class Replayed:
    """The numbers of a run of two optimizer steps per rollout."""

    def __init__(self, **settings: Any) -> None:
        self.module = PolicyOptimization(
            policy=TinyPolicy(hidden=16, layers=1, heads=2),
            algorithm=GroupRelative(sampler=GroupSampler(4), **settings),
            rewards={"small": Function("lightrl_workshop.toy.small_digits", runs="inline")},
            engine=TransformersEngine(max_new_tokens=6),
            prompts_per_rollout=4,
            optimizer=lambda p: torch.optim.SGD(p, lr=5.0),
        )
        self.trainer = quiet_trainer(max_epochs=1)
        self.trainer.fit(self.module, datamodule=PromptData(train=DigitSorting(examples=60)))


def test_old_log_probs_are_those_from_before_the_first_step() -> None:
    """Recomputed after it, every ratio would be 1 and no clip would ever act."""
    run = Replayed(epochs=2, clip=DecoupledClip(1e-4, 1e-4))
    assert run.trainer.logged_metrics["ratio/max_deviation"] > 1e-3
    assert run.trainer.logged_metrics["clip_ratio/region"] > 0.05
    once = Replayed()
    assert once.trainer.logged_metrics["ratio/max_deviation"] < 1e-4


def test_no_token_is_trained_on_that_the_policy_did_not_sample() -> None:
    """An EOS appended to a truncated completion would be one (OpenRLHF 238)."""
    run = Replayed()
    rows = run.module.experience
    cut = rows.truncated.nonzero()[:, 0].tolist()
    assert cut
    for i in cut:
        ids = rows.input_ids[i, rows.response_mask[i]].tolist()
        assert len(ids) == 6
        assert not set(ids) & run.module.policy.eos_token_ids
    ended = (~rows.truncated).nonzero()[:, 0].tolist()
    assert all(rows.input_ids[i, rows.response_mask[i]][-1].item() in run.module.policy.eos_token_ids for i in ended)
