"""The gradient of an optimizer step does not depend on how the rows are cut, ordered or padded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from lightrl_workshop import CodePoints, assert_same_gradient, gradient_of_step, random_rollout

from lightrl import (
    GAE,
    ActorCritic,
    Advantage,
    Aggregation,
    Algorithm,
    ConstantLength,
    EntropyBonus,
    GroupNormalized,
    GroupRelative,
    GroupSampler,
    KLPenalty,
    MaskTruncated,
    PositiveNLL,
    Rollout,
    SequenceMean,
    SequenceSum,
    SequenceSumTokenMean,
    SymmetricClip,
    TinyPolicy,
    TokenMean,
    TurnNormalized,
    TurnReturn,
)

pytestmark = pytest.mark.filterwarnings("ignore:the engine.s log-probs")  # rollouts here are made off-policy

AGGREGATIONS: list[Callable[[], Aggregation]] = [
    TokenMean,
    SequenceMean,
    SequenceSum,
    SequenceSumTokenMean,
    lambda: SequenceSumTokenMean(over="batch"),
    lambda: ConstantLength(length=9),
]


def policy_of(dtype: str) -> TinyPolicy:
    return TinyPolicy(hidden=16, layers=1, heads=2, dtype=dtype)  # type: ignore[arg-type]


def gradient(algorithm: Algorithm, rollout: Rollout, dtype: str, budget: int | None) -> torch.Tensor:
    return gradient_of_step(algorithm, rollout, policy_of(dtype), budget)


def rollout_of(dtype: str, seed: int = 0) -> Rollout:
    return random_rollout(policy_of(dtype).build(), groups=4, group_size=4, seed=seed)


def assert_same(one: torch.Tensor, other: torch.Tensor, dtype: str) -> None:
    assert_same_gradient(one, other, 1e-5 if dtype == "float32" else 1e-10)


def everything(aggregation: Aggregation) -> Algorithm:
    """Every term of the loss at once."""
    return GroupRelative(
        aggregation=aggregation,
        sampler=GroupSampler(group_size=4),
        kl=KLPenalty(estimator="k3", loss_coefficient=0.1),
        entropy=EntropyBonus(coefficient=0.05),
        positive_nll=PositiveNLL(coefficient=0.2, threshold=0.4),
        token_weight=MaskTruncated(),
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("make", AGGREGATIONS)
def test_micro_batch_budget_row_order_and_padding_change_nothing(make: Callable[[], Aggregation], dtype: str) -> None:
    rollout = rollout_of(dtype)
    whole = gradient(everything(make()), rollout, dtype, None)
    for budget in (64, 512):
        assert_same(whole, gradient(everything(make()), rollout, dtype, budget), dtype)
    shuffled = rollout.select(torch.randperm(len(rollout), generator=torch.Generator().manual_seed(1)))
    assert_same(whole, gradient(everything(make()), shuffled, dtype, 64), dtype)
    assert_same(whole, gradient(everything(make()), rollout.padded(40), dtype, 512), dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_without_advantage_are_left_out_without_changing_the_gradient(dtype: str) -> None:
    rollout = rollout_of(dtype)
    rollout.completions[4:8] = ["7"] * 4

    def plain(silent: bool) -> Algorithm:
        clip = SymmetricClip()
        clip.silent_without_advantage = silent
        return GroupRelative(clip=clip, sampler=GroupSampler(group_size=4), aggregation=TokenMean())

    assert_same(gradient(plain(False), rollout, dtype, 64), gradient(plain(True), rollout, dtype, 64), dtype)


def test_a_critic_is_part_of_the_same_step() -> None:
    rollout = rollout_of("float64")

    def actor_critic() -> Algorithm:
        return ActorCritic(sampler=GroupSampler(group_size=4), advantage=GAE(), clip=SymmetricClip(), aggregation=SequenceMean())

    torch.manual_seed(3)
    whole = gradient(actor_critic(), rollout, "float64", None)
    torch.manual_seed(3)
    assert_same(whole, gradient(actor_critic(), rollout, "float64", 64), "float64")


def with_gaps(rollout: Rollout) -> Rollout:
    """The same rows, in which others wrote every third token."""
    others = torch.arange(rollout.input_ids.shape[1]) % 3 == 2
    mask = rollout.response_mask & ~others
    return replace(rollout, response_mask=mask, rollout_logprobs=torch.where(mask, rollout.rollout_logprobs, 0.0))


@pytest.mark.parametrize("advantage", [GroupNormalized, TurnNormalized, TurnReturn])
def test_nor_does_it_where_others_wrote_between_the_turns(advantage: Callable[[], Advantage]) -> None:
    rollout = with_gaps(rollout_of("float64"))

    def per_turn() -> Algorithm:
        return GroupRelative(advantage=advantage(), sampler=GroupSampler(group_size=4), aggregation=SequenceMean())

    whole = gradient(per_turn(), rollout, "float64", None)
    assert_same(whole, gradient(per_turn(), rollout, "float64", 64), "float64")
    shuffled = rollout.select(torch.randperm(len(rollout), generator=torch.Generator().manual_seed(1)))
    assert_same(whole, gradient(per_turn(), shuffled, "float64", 64), "float64")
    assert_same(whole, gradient(per_turn(), rollout.padded(40), "float64", 512), "float64")
    scribbled = replace(rollout, input_ids=rollout.input_ids.masked_fill(~rollout.attention_mask, 5))
    assert_same(whole, gradient(per_turn(), scribbled, "float64", 64), "float64")


def with_long_prompts(rollout: Rollout) -> Rollout:
    """The same rows behind 20 more tokens of the prompt, and the half of a group behind a first turn that its rows share."""
    more = torch.randint(2, 24, (4, 20), generator=torch.Generator().manual_seed(5))[rollout.group]
    turn = torch.randint(2, 24, (len(rollout), 20), generator=torch.Generator().manual_seed(6))
    turn[2:4] = turn[2]
    never = torch.zeros(len(rollout), 20, dtype=torch.bool)
    spoken = torch.arange(20).expand(len(rollout), 20) % 5 < 3
    front = {"input_ids": [more, turn], "attention_mask": [~never, ~never], "response_mask": [never, spoken]}
    wide = {name: torch.cat([*parts, getattr(rollout, name)], 1) for name, parts in front.items()}
    old = torch.cat([torch.zeros(len(rollout), 20), torch.where(spoken, -3.0, 0.0), rollout.rollout_logprobs], 1)
    return replace(rollout, **wide, rollout_logprobs=old.to(rollout.rollout_logprobs))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("critic", [False, True], ids=["every term", "a critic"])
def test_rows_that_share_their_prompt_have_the_gradient_of_plain_ones(request: pytest.FixtureRequest, dtype: str, critic: bool) -> None:
    rollout = with_long_prompts(rollout_of(dtype))

    def algorithm() -> Algorithm:
        torch.manual_seed(3)
        if critic:
            return ActorCritic(sampler=GroupSampler(group_size=4), advantage=GAE(), clip=SymmetricClip(), aggregation=SequenceMean())
        return everything(TokenMean())

    packed = gradient(algorithm(), rollout, dtype, 150)
    request.getfixturevalue("plain_rows")
    plain = gradient(algorithm(), rollout, dtype, 150)
    # the norms of these layers are computed in float32, whatever the weights are
    assert_same_gradient(plain, packed, 1e-5 if dtype == "float32" else 1e-7)


def test_the_gradient_is_the_one_written_down_by_hand() -> None:
    """GRPO on one step against a loss typed from the paper: mean over rows of the mean over tokens of the clipped surrogate."""
    rollout = rollout_of("float64")
    policy = policy_of("float64").build()
    rewards = torch.tensor([CodePoints().score(p, c) for p, c in zip(rollout.prompts, rollout.completions, strict=True)])
    grouped = rewards.double().view(4, 4)
    advantages = ((grouped - grouped.mean(1, keepdim=True)) / (grouped.std(1, keepdim=True) + 1e-6)).flatten()
    logits = policy.model(rollout.input_ids).logits.log_softmax(-1)
    loss = torch.zeros((), dtype=torch.float64)
    for i in range(16):
        row = torch.zeros((), dtype=torch.float64)
        positions = rollout.response_mask[i].nonzero()[:, 0].tolist()
        for t in positions:
            ratio = (logits[i, t - 1, rollout.input_ids[i, t]] - rollout.rollout_logprobs[i, t]).exp()
            row = row - torch.minimum(ratio * advantages[i], ratio.clamp(0.8, 1.2) * advantages[i])
        loss = loss + row / len(positions) / 16
    loss.backward()
    expected = torch.cat([(p.grad if p.grad is not None else torch.zeros_like(p)).flatten() for p in policy.parameters()])
    algorithm = GroupRelative(sampler=GroupSampler(group_size=4), advantage=GroupNormalized(), aggregation=SequenceMean())
    ours = gradient(algorithm, rollout, "float64", 64)
    # tied embeddings stand twice in the state dict
    assert_same(ours[: len(expected)], expected, "float64")
