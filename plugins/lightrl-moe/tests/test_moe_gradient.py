"""A step on a mixture is the same however its rows are cut, ordered, padded, packed or computed again."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from lightrl_moe import ReplayedSequenceRatio, ReplayedTokenRatio, RoutedTokenRatio, RouterBalance, TinyMixture

from lightrl import (
    Algorithm,
    DecoupledClip,
    DigitSorting,
    GroupNormalized,
    GroupRelative,
    GroupSampler,
    ImportanceRatio,
    PolicyOptimization,
    PromptData,
    Rollout,
    SequenceMean,
    TransformersEngine,
)
from lightrl.testing import CodePoints, ReplayedRollouts, quiet_trainer, random_rollout

pytestmark = pytest.mark.filterwarnings("ignore:the engine.s log-probs")  # rollouts here are made off-policy

CASES: list[tuple[str, ImportanceRatio]] = [
    ("qwen3_moe", RoutedTokenRatio()),
    ("qwen3_moe", ReplayedTokenRatio()),
    ("mixtral", ReplayedTokenRatio()),
    ("qwen2_moe", ReplayedSequenceRatio()),
]


class Mixture(TinyMixture):
    """A mixture of sharp routers, which may compute its blocks again."""

    def __init__(self, family: str, again: bool = False) -> None:
        """
        Args:
            family: as in `TinyMixture`.
            again: activations are computed again in the backward pass.
        """
        super().__init__(family, experts=4, hidden=16, layers=2, heads=2, dtype="float64")
        self.again = again

    def build(self) -> Any:
        """See `TinyMixture.build`."""
        made = super().build()
        with torch.no_grad():
            for name, weight in made.model.named_parameters():
                weight *= 20 if name.endswith("gate.weight") else 5 if "experts" in name else 1
        if self.again:
            made.model.activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": False})
        return made.train()


def algorithm_of(ratio: ImportanceRatio) -> Algorithm:
    return GroupRelative(
        sampler=GroupSampler(group_size=4),
        advantage=GroupNormalized(),
        clip=DecoupledClip(low=0.2, high=0.28),
        aggregation=SequenceMean(),
        ratio=ratio.but(),
        balance=RouterBalance(coefficient=0.1),
        minibatches=2,
        old_logprobs="recompute",
    )


def trained(
    source: TinyMixture, ratio: ImportanceRatio, rollout: Rollout, budget: int | None, packed: bool = True
) -> tuple[torch.Tensor, dict[str, float]]:
    """The change of the parameters in two steps of plain SGD, in one vector, and what was logged."""
    module = PolicyOptimization(
        policy=source,
        algorithm=algorithm_of(ratio),
        rewards={"codes": CodePoints()},
        engine=TransformersEngine(max_new_tokens=16),
        prompts_per_rollout=4,
        micro_batch_tokens=budget,
        optimizer=lambda p: torch.optim.SGD(p, lr=0.3),
        max_grad_norm=None,
    )
    module.rollouts = ReplayedRollouts(rollout)
    take = module.take

    def taken(policy: Any) -> None:
        policy.longest_packed = policy.longest_packed if packed else 0
        take(policy)

    module.take = taken
    trainer = quiet_trainer(max_epochs=1)
    trainer.fit(module, datamodule=PromptData(train=DigitSorting(examples=100)))
    before = source.build().state_dict()
    change = torch.cat([(before[name] - now).flatten() for name, now in module.policy.state_dict().items()])
    return change, {name: float(value) for name, value in trainer.logged_metrics.items()}


def assert_same(one: torch.Tensor, other: torch.Tensor) -> None:
    assert one.abs().max() > 1e-4, "a gradient of nothing proves nothing"
    assert (one - other).abs().max() <= 1e-10 * one.abs().max()


@pytest.mark.parametrize(("family", "ratio"), CASES, ids=str)
def test_budget_order_padding_packing_and_checkpointing_change_nothing(family: str, ratio: ImportanceRatio) -> None:
    source = Mixture(family)
    rollout = random_rollout(source.build(), groups=4, group_size=4)
    whole, logged = trained(source, ratio, rollout, None)
    assert logged["rerouted/tokens"] > 0
    assert_same(whole, trained(source, ratio, rollout, 16)[0])
    shuffled = rollout.select(torch.randperm(len(rollout), generator=torch.Generator().manual_seed(1)))
    assert_same(whole, trained(source, ratio, shuffled, 32)[0])
    assert_same(whole, trained(source, ratio, rollout.padded(40), 256, packed=False)[0])
    assert_same(whole, trained(Mixture(family, again=True), ratio, rollout, 32)[0])
