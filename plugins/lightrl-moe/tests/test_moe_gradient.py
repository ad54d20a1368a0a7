"""A step on a mixture is the same however its rows are cut, ordered, padded, packed or computed again."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from lightrl_moe import ReplayedSequenceRatio, ReplayedTokenRatio, RoutedTokenRatio, RouterBalance, TinyMixture
from lightrl_workshop import CodePoints, ReplayedRollouts, quiet_trainer, random_rollout

from lightrl import (
    Advantage,
    Advantages,
    Algorithm,
    DecoupledClip,
    DigitSorting,
    Experience,
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
from lightrl.versions import recompute_activations

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
            recompute_activations(made.model)
        return made.train()


class Nothing(Advantage):
    """No advantage: the balance alone has a gradient."""

    def compute(self, experience: Experience) -> Advantages:
        """See `Advantage.compute`."""
        return Advantages(torch.zeros_like(experience.token_rewards))


def algorithm_of(ratio: ImportanceRatio, **others: Any) -> Algorithm:
    common = {"sampler": GroupSampler(group_size=4), "ratio": ratio.but(), "balance": RouterBalance(coefficient=1.0)}
    advantage, clip = GroupNormalized(), DecoupledClip(low=0.2, high=0.28)
    parts = {"advantage": advantage, "clip": clip, "aggregation": SequenceMean(), "minibatches": 2, "old_logprobs": "recompute"}
    return GroupRelative(**common | parts | others)


def trained(
    source: TinyMixture, ratio: ImportanceRatio, rollout: Rollout, budget: int | None, packed: bool = True, **others: Any
) -> tuple[torch.Tensor, dict[str, float]]:
    """The change of the parameters in plain SGD, in one vector, and what was logged."""
    module = PolicyOptimization(
        policy=source,
        algorithm=algorithm_of(ratio, **others),
        rewards={"codes": CodePoints()},
        engine=TransformersEngine(max_new_tokens=16),
        prompts_per_rollout=4,
        micro_batch_tokens=budget,
        optimizer=lambda p: torch.optim.SGD(p, lr=0.3),
        max_grad_norm=None,
    )
    module.collector.rollouts = ReplayedRollouts(rollout)
    attach = module.attach

    def taken(policy: Any) -> None:
        policy.longest_packed = policy.longest_packed if packed else 0
        attach(policy)

    module.attach = taken
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


def test_the_gradient_of_the_balance_is_that_of_the_formula_over_all_rows() -> None:
    """By autograd through the whole model, all rows at once, with the router logits that transformers records."""
    source = Mixture("qwen3_moe")
    rollout = random_rollout(source.build(), groups=4, group_size=4)
    policy, places = source.build(), rollout.response_mask.nonzero(as_tuple=True)
    loss, layers, experts = 0.0, 2, 4
    for logits in policy.model(input_ids=rollout.input_ids, output_router_logits=True).router_logits:
        likely = logits.view(*rollout.input_ids.shape, experts)[places[0], places[1] - 1].softmax(-1)
        shares = torch.nn.functional.one_hot(likely.topk(2).indices, experts).double().mean((0, 1))
        loss = loss + experts * (shares * likely.mean(0)).sum() / layers
    loss.backward()
    slopes = {name: torch.zeros_like(weight) if weight.grad is None else weight.grad for name, weight in policy.named_parameters()}
    change, logged = trained(source, RoutedTokenRatio(), rollout, 16, advantage=Nothing(), minibatches=1)
    # a state dict has the head, which is the embedding, a second time
    kept = torch.cat([torch.full((value.numel(),), name in slopes) for name, value in policy.state_dict().items()])
    expected = torch.cat([slopes[name].flatten() for name in policy.state_dict() if name in slopes])
    assert_same(expected, change[kept] / 0.3)
    assert logged["balance_loss"] == pytest.approx(float(loss), rel=1e-5)
