"""What parts learn travels to the parts after them, and what they prepare sees the whole step."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from lightrl_distill import AdvantageSum
from lightrl_workshop import CodePoints, ReplayedRollouts, hand_made_experience, quiet_trainer, random_rollout
from lightrl_workshop.ranks import on_ranks
from torch import Tensor

from lightrl import (
    Advantages,
    DecoupledClip,
    DigitSorting,
    Experience,
    GroupCentered,
    GroupRelative,
    GroupSampler,
    MaskTruncated,
    Minibatch,
    PolicyOptimization,
    PromptData,
    SequenceRatio,
    Surrogate,
    TinyPolicy,
    TokenMean,
    TrainingBatch,
    TransformersEngine,
    token_uniforms,
)
from lightrl.parts.step_part import largest
from lightrl.ranks import Ranks

pytestmark = pytest.mark.filterwarnings("ignore:the engine.s log-probs")
POLICY = TinyPolicy(hidden=16, layers=1, heads=2, dtype="float64")


def trained(algorithm: GroupRelative) -> PolicyOptimization:
    """The module after one step on sixteen rows."""
    module = PolicyOptimization(
        policy=POLICY,
        algorithm=algorithm,
        rewards={"codes": CodePoints()},
        engine=TransformersEngine(max_new_tokens=16),
        prompts_per_rollout=4,
        micro_batch_tokens=64,
        optimizer=lambda p: torch.optim.SGD(p, lr=1.0),
        max_grad_norm=None,
    )
    module.collector.rollouts = ReplayedRollouts(random_rollout(POLICY.build()))
    trainer = quiet_trainer(max_epochs=1)
    trainer.fit(module, datamodule=PromptData(train=DigitSorting(examples=100)))
    return module


def weights(module: PolicyOptimization) -> Tensor:
    return torch.cat([p.detach().flatten() for p in module.policy.parameters()])


class Ranked(GroupCentered):
    """Says which rows are better than their group."""

    gives = frozenset({"better", "level"})

    def compute(self, experience: Experience) -> Advantages:
        found = super().compute(experience).advantages
        return Advantages(found, extras={"better": found.amax(1) > 0, "level": found / 2})


class BetterAlone(DecoupledClip):
    """Learns from better rows alone."""

    needs = frozenset({"better", "level"})

    def surrogate(self, log_ratio: Tensor, advantages: Tensor, old_logprobs: Tensor, mask: Tensor) -> Surrogate:
        assert torch.equal(self.extra("level"), advantages / 2)
        found = super().surrogate(log_ratio, advantages, old_logprobs, mask)
        return Surrogate(torch.where(self.extra("better")[:, None], found.loss, 0.0), found.clipped_low, found.clipped_high)


class BetterAdvantage(GroupCentered):
    """Has no advantage on other rows."""

    def compute(self, experience: Experience) -> Advantages:
        return Advantages(super().compute(experience).advantages.clamp(min=0))


def test_what_an_advantage_leaves_reaches_the_clip_scheme() -> None:
    sampler = GroupSampler(group_size=4)
    ours = trained(GroupRelative(sampler=sampler, advantage=Ranked(), clip=BetterAlone()))
    theirs = trained(GroupRelative(sampler=sampler.but(), advantage=BetterAdvantage(), clip=DecoupledClip()))
    assert torch.allclose(weights(ours), weights(theirs), atol=1e-12)


class FirstHalf(MaskTruncated):
    """Tokens below the mean log-prob of the whole step carry no loss."""

    gives = frozenset({"likely"})

    def prepare(self, minibatch: Minibatch) -> dict[str, Tensor]:
        FirstHalf.seen = minibatch
        return {"likely": minibatch.output.logprobs >= minibatch.moments(minibatch.output.logprobs).mean}

    def step_weights(self, rows: TrainingBatch) -> Tensor:
        return rows.extra("likely").to(rows.token_weight)


def test_a_token_weight_may_wait_for_the_step_and_then_changes_the_denominators() -> None:
    module = trained(GroupRelative(sampler=GroupSampler(group_size=4), token_weight=FirstHalf(), aggregation=TokenMean()))
    seen: Any = FirstHalf.seen
    with torch.no_grad():
        expected = POLICY.build()(seen.rows.input_ids, seen.rows.response_mask).logprobs
    assert torch.allclose(seen.output.logprobs, expected, atol=1e-12)
    chosen = seen.mask & (expected >= expected[seen.mask].mean())
    assert 0 < chosen.sum() < seen.mask.sum()
    assert float(module.trainer.logged_metrics["ratio/max"]) > 0


class Liar(FirstHalf):
    """Prepares something else than it says."""

    gives = frozenset({"liked"})


def test_what_is_prepared_is_what_was_said() -> None:
    with pytest.raises(ValueError, match=r"Liar says that it gives \['liked'\], and has given \['likely'\]"):
        trained(GroupRelative(sampler=GroupSampler(group_size=4), token_weight=Liar()))


class Other(SequenceRatio):
    gives = frozenset({"likely"})


class OfTheCore(FirstHalf):
    def __init__(self, name: str) -> None:
        self.gives = frozenset({name})


REFUSED = [
    *[({"token_weight": OfTheCore(name)}, f"OfTheCore leaves the extra '{name}': 'given', and") for name in ("given", "old_entropy")],
    ({"clip": BetterAlone()}, "BetterAlone needs better, level for each row, .* leaves that before it; extras are: none"),
    ({"clip": BetterAlone(), "advantage": Ranked(), "token_weight": FirstHalf(), "ratio": Other()}, "both leave the extra 'likely'"),
]


@pytest.mark.parametrize(("slots", "message"), REFUSED, ids=["given", "of an output", "nobody leaves it", "two leave it"])
def test_extras_that_do_not_fit_are_refused(slots: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        trained(GroupRelative(**slots))


def test_two_summands_that_leave_one_extra_are_refused() -> None:
    with pytest.raises(ValueError, match="two of them leave the extra better, level: rename one of them"):
        AdvantageSum(advantages={"one": Ranked(), "other": Ranked()})


def test_a_part_that_was_given_nothing_says_so() -> None:
    row = torch.zeros(1, 1)
    with pytest.raises(RuntimeError, match="BetterAlone reads the extra 'level', and there is none"):
        BetterAlone().surrogate(row, row, row, row.bool())


def test_random_numbers_belong_to_rows_and_not_to_places() -> None:
    rows = hand_made_experience([1.0, 0.0, 1.0], lengths=[2, 3, 1])
    found = token_uniforms(rows, "mine")
    assert torch.equal(token_uniforms(rows.select([2, 0, 1]).padded(9), "mine")[:, :5], found[[2, 0, 1]])
    assert len(set(found.flatten().tolist())) == found.numel()
    assert not (token_uniforms(rows, "yours") == found).any()
    assert not (Minibatch(rows, None, step=1).uniforms("mine") == Minibatch(rows, None, step=2).uniforms("mine")).any()  # type: ignore[arg-type]
    rows.seeds = None
    with pytest.raises(RuntimeError, match="no seeds"):
        token_uniforms(rows, "mine")


def test_rows_of_one_prompt_have_seeds_of_their_own() -> None:
    module = PolicyOptimization(
        policy=POLICY,
        algorithm=GroupRelative(sampler=GroupSampler(group_size=4)),
        rewards={"codes": CodePoints()},
        engine=TransformersEngine(max_new_tokens=4),
        prompts_per_rollout=4,
    )
    quiet_trainer(max_epochs=1).fit(module, datamodule=PromptData(train=DigitSorting(examples=100)))
    rows: Any = module.experience
    assert len(set(rows.seeds.tolist())) == 16


@pytest.mark.parametrize("count", [0, 1, 3, 5, 9])
def test_the_largest_of_all_ranks(count: int) -> None:
    values = torch.tensor([[3.0, 1.0, 2.0, 9.0], [2.0, 5.0, 2.0, 9.0]])
    mask = torch.tensor([[True, True, True, False], [True, True, True, False]])
    uniforms = torch.tensor([[0.1, 0.2, 0.3, 0.0], [0.05, 0.5, 0.6, 0.0]])
    # 5, 3, then the 2 with the smallest number, and so on
    order = [(1, 1), (0, 0), (1, 0), (0, 2), (1, 2), (0, 1)][:count]
    alone = largest(values, mask, count, uniforms)
    assert sorted(map(tuple, alone.nonzero().tolist())) == sorted(order)

    def of_rank(rank: int, ranks: Ranks) -> Tensor:
        mine = slice(rank, rank + 1)
        return largest(values[mine], mask[mine], count, uniforms[mine], ranks)

    assert torch.equal(torch.cat(on_ranks(2, of_rank)), alone)


def test_rounding_does_not_choose() -> None:
    values = torch.tensor([[1.0, 1.0 + 1e-14, -4.0]], dtype=torch.float64)
    chosen = largest(values, torch.ones(1, 3, dtype=torch.bool), 1, torch.tensor([[0.1, 0.2, 0.3]]))
    assert chosen.tolist() == [[True, False, False]]
