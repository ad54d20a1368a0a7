"""The formulas of a rank's memory, beside what PyTorch holds."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from lightrl import ModelSize, TinyPolicy, rank_memory
from lightrl.ops.packing import pack
from lightrl.policy.packed_trunk import packed_hidden
from lightrl.strategies.master_weights import MasterWeights
from lightrl.versions import recompute_activations

BILLION = ModelSize(parameters=1e9, layers=10, hidden=1000, intermediate=4000, key_width=250)


def kept_for_backward(policy: Any, precision: str = "32-true") -> tuple[int, int]:
    """Bytes that autograd keeps of packed rows beside the parameters, and the tokens of the rows."""
    own = {p.untyped_storage().data_ptr() for p in policy.parameters()}
    kept: dict[int, torch.UntypedStorage] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            # it stays, so that no other one gets its address
            kept[storage.data_ptr()] = storage
        return tensor

    ids = torch.randint(2, 20, (8, 192), generator=torch.Generator().manual_seed(0))
    ids[:, :64] = ids[0, :64].clone()
    rows = pack(ids, [192] * 8)
    mixed = torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16-mixed")
    with mixed, torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        packed_hidden(policy.model.base_model, rows)
    return sum(storage.nbytes() for storage in kept.values()), len(rows)


def test_the_sizes_of_a_model_are_those_of_its_config() -> None:
    source = TinyPolicy(hidden=48, layers=3, heads=4)
    assert ModelSize.of(source.outline()) == ModelSize(source.parameters(), 3, 48, 192, 48)


@pytest.mark.parametrize(
    ("strategy", "weights", "gathered", "gradients", "optimizer"),
    [
        ("auto", 4e9, 0, 4e9, 8e9),
        ("ddp", 4e9, 0, 8e9, 8e9),
        ("deepspeed_stage_1", 4e9, 0, 4e9, 3e9),
        ("deepspeed_stage_2", 4e9, 0, 1e9, 3e9),
        ("deepspeed_stage_3", 1e9, 8e9, 0, 4e9),
        ("deepspeed_stage_3_offload", 1e9, 8e9, 0, 0),
        ("fsdp2", 1e9, 4e9, 1e9, 2e9),
    ],
)
def test_a_strategy_divides_what_it_cuts_by_the_ranks(
    strategy: str, weights: float, gathered: float, gradients: float, optimizer: float
) -> None:
    found = rank_memory(BILLION, strategy, ranks=4, precision="32-true")
    assert (found.weights, found.gathered, found.gradients, found.optimizer + found.master) == (weights, gathered, gradients, optimizer)


def test_what_an_engine_decodes_with_under_bf16_mixed_has_two_bytes() -> None:
    found = {strategy: rank_memory(BILLION, strategy, ranks=4).gathered for strategy in ("auto", "ddp", "deepspeed_stage_2", "fsdp2")}
    assert found == {"auto": 2e9, "ddp": 2e9, "deepspeed_stage_2": 0, "fsdp2": 2e9}
    assert rank_memory(BILLION, "ddp", ranks=4, engine_inside=False).gathered == 0
    # FSDP2 gathers them rounded, so that autocast keeps no others
    apart = rank_memory(BILLION, "ddp").activations - rank_memory(BILLION, "fsdp2").activations
    assert apart == 2e9


def test_half_precision_halves_weights_and_the_optimizer_keeps_its_own_in_full() -> None:
    found = {(s, p): rank_memory(BILLION, s, precision=p) for s in ("ddp", "deepspeed_stage_2") for p in ("bf16-true", "bf16-mixed")}  # type: ignore[arg-type]
    assert {key: (one.weights, one.optimizer + one.master) for key, one in found.items()} == {
        ("ddp", "bf16-true"): (2e9, 12e9),
        ("ddp", "bf16-mixed"): (4e9, 8e9),
        ("deepspeed_stage_2", "bf16-true"): (2e9, 12e9),
        ("deepspeed_stage_2", "bf16-mixed"): (2e9, 12e9),
    }


def test_adapters_need_gradients_and_moments_for_themselves_alone() -> None:
    found = rank_memory(BILLION, "ddp", precision="bf16-true", learning=1e7)
    assert (found.weights, found.gradients, found.optimizer, found.master) == (2e9, 8e7, 8e7, 0)


def test_what_a_run_on_bfloat16_weights_holds_is_what_the_formula_says() -> None:
    source = TinyPolicy(hidden=64, dtype="bfloat16")
    policy = source.build()
    masters = MasterWeights([{"params": list(policy.parameters())}], policy)
    optimizer = masters.optimizer(torch.optim.AdamW)
    ids = torch.randint(2, 20, (2, 8))
    policy(ids, torch.ones_like(ids, dtype=torch.bool).index_fill_(1, torch.tensor([0]), False)).logprobs.sum().backward()
    moved = [masters.moved(parameter) for parameter in policy.parameters()]
    gradients = sum(one.grad.nbytes for one in moved if one.grad is not None)
    optimizer.step()
    moments = sum(state[name].nbytes for state in optimizer.state.values() for name in ("exp_avg", "exp_avg_sq"))
    found = rank_memory(ModelSize.of(source.outline()), "auto", precision="bf16-true")
    held = sum(parameter.nbytes for parameter in policy.parameters()), gradients, moments, sum(one.nbytes for one in moved)
    assert held == (found.weights, found.gradients, found.optimizer, found.master)


def test_a_reference_and_a_critic_are_a_policy_more_each_and_the_critic_learns() -> None:
    plain = rank_memory(BILLION, "ddp", precision="32-true")
    both = rank_memory(BILLION, "ddp", precision="32-true", reference=True, critic=True)
    assert (both.reference, both.critic, both.gradients, both.optimizer) == (4e9, 4e9, 2 * plain.gradients, 2 * plain.optimizer)
    assert both.standing == plain.standing + 4e9 + 4e9 + plain.optimizer


def test_an_engine_elsewhere_takes_its_keys_and_the_whole_weights_with_it() -> None:
    inside, outside = (rank_memory(BILLION, "fsdp2", 8, "bf16-true", engine_inside=inside) for inside in (True, False))
    assert inside.generating - outside.generating == inside.gathered + 2 * inside.keys_and_values > 0
    assert outside.peak == outside.learning


@pytest.mark.parametrize(("hidden", "layers"), [(64, 2), (64, 4), (128, 3)])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_activations_are_what_autograd_keeps(hidden: int, layers: int, checkpointing: bool) -> None:
    source = TinyPolicy(hidden=hidden, layers=layers)
    policy: Any = source.build()
    if checkpointing:
        recompute_activations(policy.model)
    kept, tokens = kept_for_backward(policy)
    size = ModelSize.of(source.outline())
    found = rank_memory(size, "auto", precision="32-true", micro_batch_tokens=tokens, gradient_checkpointing=checkpointing).activations
    if checkpointing:
        # the formula has one block on top, which is computed again in the backward pass
        found -= rank_memory(replace(size, layers=1), "auto", precision="32-true", micro_batch_tokens=tokens).activations
    assert found == pytest.approx(kept, rel=0.15)


@pytest.mark.parametrize("precision", ["bf16-true", "bf16-mixed"])
def test_m3_activations_in_half_precision_are_what_autograd_keeps(precision: Any) -> None:
    source = TinyPolicy(hidden=128, layers=3)
    policy: Any = source.build()
    kept, tokens = kept_for_backward(policy.to(torch.bfloat16) if precision == "bf16-true" else policy, precision)
    found = rank_memory(ModelSize.of(source.outline()), "auto", precision=precision, micro_batch_tokens=tokens).activations
    assert found == pytest.approx(kept, rel=0.1)


def test_keys_and_values_are_what_the_model_caches() -> None:
    source = TinyPolicy(hidden=64, layers=3)
    policy: Any = source.build()
    cache = policy.model(torch.randint(2, 20, (5, 40)), use_cache=True).past_key_values
    held = sum(4 * (layer.keys.numel() + layer.values.numel()) for layer in cache.layers)
    assert rank_memory(ModelSize.of(source.outline()), "auto", precision="32-true", rows=5, positions=40).keys_and_values == held


def test_a_strategy_without_a_formula_is_refused_with_those_that_have_one() -> None:
    with pytest.raises(ValueError, match="no formula for the strategy 'fsdp'; there is one for auto, ddp"):
        rank_memory(BILLION, "fsdp")
