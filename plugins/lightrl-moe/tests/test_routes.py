"""Routes: counted, replayed, and refused where a policy has none that are known."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from lightrl_moe import PretrainedMixture, ReplayedTokenRatio, RoutedSequenceRatio, RoutedTokenRatio, RouterBalance, Routes, TinyMixture
from lightrl_moe.routes import rerouted
from lightrl_workshop import CodePoints, quiet_trainer
from torch import Tensor

from lightrl import (
    DecoupledClip,
    DigitSorting,
    GroupNormalized,
    GroupRelative,
    GroupSampler,
    ImportanceRatio,
    Policy,
    PolicyOptimization,
    PromptData,
    SequenceMean,
    TinyPolicy,
    TransformersEngine,
    WithStatistics,
)
from lightrl.rollout.decode.lean_step import has_lean_form

FAMILIES = ["mixtral", "qwen2_moe", "qwen3_moe"]
IDS = torch.tensor([[2, 3, 4, 5, 6, 7], [2, 3, 4, 9, 8, 7]])
MASK = torch.tensor([[0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 0]]).bool()


def test_tokens_and_choices_that_moved_by_hand() -> None:
    old = torch.tensor([[[[0, 1], [2, 3]], [[0, 1], [2, 3]], [[0, 1], [2, 3]]]])
    new = torch.tensor([[[[1, 0], [3, 2]], [[0, 2], [2, 3]], [[2, 3], [0, 1]]]])
    found = rerouted(old, new)
    assert found["rerouted/tokens"].tolist() == [[0, 1, 1]]
    assert found["rerouted/experts"].tolist() == [[0, 0.25, 1]]


@pytest.mark.parametrize("cls", [RoutedTokenRatio, RoutedSequenceRatio])
def test_counting_leaves_the_ratio_as_it_is(cls: type[ImportanceRatio]) -> None:
    new, old, mask = torch.tensor([[-1.0, -2.0]]), torch.tensor([[-1.5, -1.0]]), torch.ones(1, 2).bool()
    routes = torch.zeros(1, 2, 1, 1)
    found = cls().given({"old_routes": routes, "routes": routes}).log_ratio(new, old, mask)
    assert isinstance(found, WithStatistics)
    assert found.value.tolist() == cls.__mro__[2]().log_ratio(new, old, mask).tolist()


def mixture(family: str, seed: int = 0) -> Policy:
    policy = TinyMixture(family, experts=4, hidden=16, layers=2, heads=2, seed=seed, dtype="float64").build()
    with torch.no_grad():
        for name, weight in policy.model.named_parameters():
            weight *= 20 if name.endswith("gate.weight") else 5
    return policy


def routes_of(policy: Policy, **steering: Tensor) -> tuple[Tensor, Tensor]:
    out = policy(IDS, MASK, outputs={"routes": Routes()}, steering=steering)
    return out.outputs["routes"], out.logprobs


@pytest.mark.parametrize("family", FAMILIES)
def test_its_own_routes_change_nothing(family: str) -> None:
    policy = mixture(family)
    routes, plain = routes_of(policy)
    again, replayed = routes_of(policy, old_routes=routes)
    assert again.equal(routes)
    torch.testing.assert_close(replayed, plain, atol=1e-12, rtol=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_routes_of_another_policy_are_those_that_routers_are_made_to_take(family: str) -> None:
    """Against a policy whose routers are written anew, token by token."""
    policy, other = mixture(family), mixture(family, seed=1)
    routes, _ = routes_of(other)
    plain = routes_of(policy)[1]
    _, replayed = routes_of(policy, old_routes=routes)
    assert (replayed - plain).abs().max() > 1e-3
    # a position takes the routes of the token that it predicts, and the last one predicts none
    given = torch.cat([routes[:, 1:], torch.zeros_like(routes[:, :1])], 1).flatten(0, 1).long()
    for column, layer in enumerate(policy.model.base_model.layers):
        layer.mlp.gate.forward = forced(layer.mlp.gate, given[:, column])
    logits = policy.model(input_ids=IDS, use_cache=False).logits
    expected = logits[:, :-1].log_softmax(-1).gather(2, IDS[:, 1:, None])[..., 0]
    torch.testing.assert_close(replayed[:, 1:], torch.where(MASK[:, 1:], expected, 0.0), atol=1e-12, rtol=0)


def forced(router: Any, experts: Tensor) -> Any:
    def forward(hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        logits = hidden.reshape(-1, hidden.shape[-1]) @ router.weight.T
        weights = logits.softmax(-1).gather(1, experts)
        return logits, weights / weights.sum(-1, keepdim=True) if getattr(router, "norm_topk_prob", True) else weights, experts

    return forward


def module_of(source: TinyPolicy, ratio: ImportanceRatio, engine: TransformersEngine | None = None, **others: Any) -> PolicyOptimization:
    algorithm = GroupRelative(
        sampler=GroupSampler(group_size=4),
        advantage=GroupNormalized(),
        clip=DecoupledClip(low=0.2, high=0.28),
        aggregation=SequenceMean(),
        ratio=ratio,
        minibatches=2,
        **others,
    )
    return PolicyOptimization(
        policy=source,
        algorithm=algorithm,
        rewards={"codes": CodePoints()},
        engine=engine or TransformersEngine(max_new_tokens=6),
        prompts_per_rollout=4,
        optimizer=lambda p: torch.optim.AdamW(p, lr=0.01),
    )


def fit(module: PolicyOptimization, rollouts: int = 2) -> dict[str, float]:
    trainer = quiet_trainer(max_epochs=rollouts)
    trainer.fit(module, datamodule=PromptData(train=DigitSorting(examples=100)))
    return {name: float(value) for name, value in trainer.logged_metrics.items()}


@pytest.mark.parametrize("family", FAMILIES)
def test_rollouts_log_probs_and_steps_of_a_mixture_agree(family: str) -> None:
    """In float32, with the engine's own log-probs as the old ones: decoding token by token, and packed rows in training."""
    module = module_of(TinyMixture(family, experts=4, hidden=16, heads=2), RoutedTokenRatio(), balance=RouterBalance(0.01))
    logged = fit(module)
    assert module.policy.longest_packed > 0
    assert not has_lean_form(module.policy.model), "its blocks are decoded by the model's own forward"
    assert logged["ratio/first_pass_deviation"] < 1e-3
    assert logged["rerouted/tokens"] > 0
    assert logged["rerouted/tokens_in_rollout"] <= 0.02, "near ties alone"
    assert 1.0 <= logged["router_balance"] < 4.0
    assert 0.25 <= logged["router/largest_share"] <= 0.5


def test_a_policy_without_routers_is_refused_by_name_before_its_first_rollout() -> None:
    with pytest.raises(ValueError, match="LlamaModel is no mixture of experts whose routers transformers names") as refused:
        fit(module_of(TinyPolicy(hidden=16, layers=1, heads=2), RoutedTokenRatio()))
    assert "attach" in [entry.name for entry in refused.traceback]


class TinyDeepSeek(TinyPolicy):
    """Routers that choose by sigmoids and a bias."""

    def config(self) -> Any:
        """See `TinyPolicy.config`."""
        from transformers import DeepseekV3Config

        heads = {
            "q_lora_rank": 8,
            "kv_lora_rank": 8,
            "qk_rope_head_dim": 4,
            "qk_nope_head_dim": 4,
            "v_head_dim": 8,
            "first_k_dense_replace": 1,
        }
        experts = {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "moe_intermediate_size": 16}
        return DeepseekV3Config(**self.sizes(), **heads, **experts, intermediate_size=32)


def test_routers_that_choose_in_another_way_are_counted_and_neither_balanced_nor_replayed() -> None:
    source = TinyDeepSeek(hidden=16, layers=2, heads=2)
    assert fit(module_of(source, RoutedTokenRatio()), rollouts=1)["rerouted/tokens"] >= 0
    for ratio, others in ((ReplayedTokenRatio(), {}), (RoutedTokenRatio(), {"balance": RouterBalance()})):
        with pytest.raises(ValueError, match=r"DeepseekV3TopkRouter weighs its experts in another way"):
            fit(module_of(source, ratio, **others), rollouts=1)


def test_a_folder_without_routers_is_refused(tmp_path: Any) -> None:
    TinyPolicy(hidden=16, layers=1, heads=2).build().save(tmp_path)
    with pytest.raises(ValueError, match="LlamaModel is no mixture of experts"):
        PretrainedMixture(str(tmp_path)).build()


def test_a_folder_with_routers_is_read(tmp_path: Any) -> None:
    made = TinyMixture(hidden=16, layers=1, heads=2).build()
    made.save(tmp_path)
    read = PretrainedMixture(str(tmp_path), dtype="float64").build()
    torch.testing.assert_close(read(IDS, MASK).logprobs.float(), made(IDS, MASK).logprobs, atol=1e-4, rtol=0)
    assert str(read.model.config._experts_implementation) == "eager"


def test_more_chosen_experts_than_there_are_is_refused() -> None:
    with pytest.raises(ValueError, match="TinyMixture needs chosen <= experts"):
        TinyMixture(experts=2, chosen=3)


def test_an_engine_that_records_nothing_says_so() -> None:
    class Silent(TransformersEngine):
        """Keeps to itself what happens inside."""

        records = False

    with pytest.warns(UserWarning, match="Silent samples rows for which no engine records routes"):
        module = module_of(TinyMixture(hidden=16, heads=2), RoutedTokenRatio(), engine=Silent(max_new_tokens=6))
    assert not module.collector.engine.recorded
