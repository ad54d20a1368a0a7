"""What is converted and moved, counted: no weight more often than its use asks for. Results stay those without copies."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from lightrl_workshop import SmallDigits, quiet_trainer, rollouts_with
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from lightrl import (
    DigitSorting,
    FrozenReference,
    GroupRelative,
    GroupSampler,
    KLPenalty,
    LoraPolicy,
    Policy,
    PolicyOptimization,
    Prompt,
    PromptData,
    TinyPolicy,
    TransformersEngine,
)
from lightrl.ops import head_product
from lightrl.ops.logprobs import chosen_logprobs
from lightrl.policy import packed_trunk
from lightrl.rollout.decode import lean_step
from lightrl.rollout.decode.incremental import IncrementalModel

HALF = torch.bfloat16
PROMPTS = [Prompt("0", text="31="), Prompt("1", text="2041=")]


class Conversions(TorchDispatchMode):
    """Counts conversions of tensors of at least so many numbers to another format or device."""

    def __init__(self, numbers: int) -> None:
        super().__init__()
        self.numbers, self.count = numbers, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **kwargs or {})
        if func in (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default):
            source = args[0] if func is torch.ops.aten._to_copy.default else args[1]
            changed = (source.dtype, source.device) != (out.dtype, out.device)
            self.count += int(changed and source.numel() >= self.numbers)
        return out


@contextmanager
def mixed() -> Iterator[None]:
    """As Lightning's `bf16-mixed`."""
    with torch.autocast("cpu", HALF, cache_enabled=False):
        yield


def casts_of_a_rollout(policy: Policy, tokens: int) -> int:
    """Conversions of matrices, of which the smallest has 256 numbers; those of activations are smaller."""
    loop = rollouts_with(policy, TransformersEngine(max_new_tokens=tokens))
    with mixed(), Conversions(32 * 32) as seen:
        assert loop.rollout(PROMPTS[:1], 1).response_lengths.max() > tokens // 2
    return seen.count


def endless(source: Any) -> Policy:
    """A policy of this source that does not end its answers."""
    policy: Policy = source.build()
    policy.eos_token_ids = frozenset()
    return policy


@pytest.mark.parametrize("lean", [True, False], ids=["lean step", "its own forward"])
@pytest.mark.parametrize("adapted", [False, True], ids=["all weights", "adapters"])
def test_s2_no_weight_is_cast_per_decoded_token_under_bf16_mixed(lean: bool, adapted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not lean:
        monkeypatch.setattr(lean_step, "TYPES", frozenset())
    source = TinyPolicy(hidden=32, layers=2)
    policy = endless(LoraPolicy(source, r=32) if adapted else source)
    assert casts_of_a_rollout(policy, 24) == casts_of_a_rollout(policy, 4)


def test_the_copies_of_a_rollout_are_gone_after_it_and_change_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = TinyPolicy(hidden=32, layers=2).build()
    before = [(name, id(parameter)) for name, parameter in policy.named_parameters()]
    engine = TransformersEngine(max_new_tokens=16)
    with mixed():
        ours = rollouts_with(policy, engine).rollout(PROMPTS, 3)
    assert engine._copies is None
    assert [(name, id(parameter)) for name, parameter in policy.named_parameters()] == before
    monkeypatch.setattr("lightrl.rollout.decode.model_forward.LINEAR", ())
    with mixed():
        theirs = rollouts_with(policy, TransformersEngine(max_new_tokens=16)).rollout(PROMPTS, 3)
    assert torch.equal(ours.input_ids, theirs.input_ids)
    assert torch.equal(ours.rollout_logprobs, theirs.rollout_logprobs)


@pytest.mark.parametrize("lean", [True, False], ids=["lean step", "its own forward"])
def test_keys_and_values_have_the_format_that_the_layers_compute_in(lean: bool) -> None:
    model = TinyPolicy(hidden=32, layers=2).build().model.eval()
    made = {True: lean_step.LeanStep, False: lambda model: None}[lean](model)
    batch = IncrementalModel(model, 96, lambda: made or batch._forward)
    with torch.no_grad(), mixed():
        batch.prefill([[2, 3, 4], [5, 6]], [2, 1])
        batch.step(torch.tensor([2, 3, 4]))
    assert {states.dtype for layer in batch._cache.layers for states in (layer.keys, layer.values)} == {HALF}


@pytest.mark.parametrize("precision", ["float32", "mixed", "bfloat16"])
def test_s1_attention_is_asked_in_the_format_that_its_kernel_takes(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: set[tuple[torch.dtype, ...]] = set()
    known = packed_trunk.tree_attention

    def seen(query: Tensor, key: Tensor, value: Tensor, *further: Any) -> Tensor:
        asked.add((query.dtype, key.dtype, value.dtype))
        return known(query, key, value, *further)

    policy = TinyPolicy(hidden=32, layers=2, dtype="bfloat16" if precision == "bfloat16" else "float32").build()
    monkeypatch.setattr(packed_trunk, "tree_attention", seen)
    ids, mask = torch.tensor([[2, 3, 4, 5], [2, 3, 6, 7]]), torch.tensor([[False, False, True, True]] * 2)
    with torch.autocast("cpu", HALF, enabled=precision == "mixed", cache_enabled=False):
        policy(ids, mask).logprobs.sum().backward()
    assert asked == {(torch.float32 if precision == "float32" else HALF,) * 3}


@pytest.mark.parametrize("setting", ["mixed", "bfloat16"])
def test_a_head_is_cast_at_most_once_forward_and_once_backward(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head_product, "ELEMENTS", 64 * 4)
    monkeypatch.setattr(head_product, "LEAST_ROWS", 1)
    monkeypatch.setattr(head_product, "TILE", (16, 16))
    dtype = HALF if setting == "bfloat16" else torch.float32
    hidden, weight = torch.randn(40, 16, dtype=dtype, requires_grad=True), torch.randn(64, 16, dtype=dtype, requires_grad=True)
    casts = []
    with torch.autocast("cpu", HALF, enabled=setting == "mixed", cache_enabled=False), Conversions(64 * 16) as seen:
        (values,) = chosen_logprobs(hidden, weight, None, torch.arange(40))
        casts.append(seen.count)
        values.sum().backward()
        casts.append(seen.count - casts[0])
    # the last one gives the gradient of the weights their format
    assert casts == ([1, 2] if setting == "bfloat16" else [0, 0])


@pytest.mark.parametrize("setting", ["mixed", "bfloat16"])
def test_w5_the_log_probs_of_a_head_lose_nothing_to_the_format_of_its_logits(setting: str) -> None:
    made = torch.Generator().manual_seed(0)
    exact = [(torch.randn(shape, generator=made) * size).to(HALF) for shape, size in (((64, 96), 1.0), ((200, 96), 1.5))]
    targets = torch.randint(200, (64,), generator=made)
    expected = (exact[0].double() @ exact[1].double().T).log_softmax(-1).gather(1, targets[:, None])[:, 0]
    hidden, weight = (tensor if setting == "bfloat16" else tensor.float() for tensor in exact)
    with torch.autocast("cpu", HALF, enabled=setting == "mixed"):
        (found,) = chosen_logprobs(hidden, weight, None, targets)
    # logits up to 60, whose neighbours in bfloat16 are 0.25 apart
    torch.testing.assert_close(found.double(), expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("lean", [True, False], ids=["lean step", "its own forward"])
@pytest.mark.parametrize("setting", ["mixed", "bfloat16"])
def test_decoding_has_the_head_of_training(setting: str, lean: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not lean:
        monkeypatch.setattr(lean_step, "TYPES", frozenset())
    policy = TinyPolicy(hidden=32, layers=1, dtype="bfloat16" if setting == "bfloat16" else "float32").build()
    with torch.no_grad():
        policy.model.get_output_embeddings().weight.normal_(std=2)
    with torch.no_grad(), torch.autocast("cpu", HALF, enabled=setting == "mixed", cache_enabled=False):
        rollout = rollouts_with(policy, TransformersEngine(max_new_tokens=8)).rollout(PROMPTS, 4)
        # the same decoded once more, whose logits are not on the grid of bfloat16
        found = policy.model(rollout.input_ids[:1]).logits
    assert found.dtype == torch.float32
    assert not torch.equal(found, found.to(HALF).float())


def test_a_chunk_has_the_rows_that_its_device_wants() -> None:
    gigabyte = 2**30
    for memory in (24, 40, 80, 141):
        assert 1024 <= head_product.rows_at_once(152_000, "cuda", memory * gigabyte) <= 2048
    assert head_product.rows_at_once(152_000, "cpu", 0) == 128
    assert head_product.rows_at_once(1000, "cpu", 0) == 4194
    # where memory is scarce, the logits do not take it all
    assert head_product.rows_at_once(256_000, "cuda", 4 * gigabyte) * 256_000 * 4 <= 4 * gigabyte / 32
    assert head_product.rows_at_once(256_000, "xpu", 0) == 128


def test_s3_a_head_is_read_once_per_chunk_of_its_device(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []

    def seen(hidden: Tensor, *further: Any) -> Tensor:
        reads.append(len(hidden))
        return head_product.head_product(hidden, *further)

    monkeypatch.setattr("lightrl.ops.logprobs.head_product", seen)
    monkeypatch.setattr("lightrl.ops.logprobs.tile", lambda *_: (head_product.rows_at_once(152_000, "cuda", 80 * 2**30), 16))
    monkeypatch.setattr("lightrl.ops.logprobs.KEPT", 0)
    hidden, weight = torch.randn(8192, 4, requires_grad=True), torch.randn(16, 4, requires_grad=True)
    chosen_logprobs(hidden, weight, None, torch.zeros(8192, dtype=torch.long))[0].sum().backward()
    assert reads == [2048] * 8, "four chunks, forward and backward"


def test_s5_an_offloaded_reference_is_moved_once_per_pass_and_never_back() -> None:
    policy = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
    policy[1].weight = nn.Parameter(policy[0].weight.detach().T.contiguous())
    reference = FrozenReference(offload="cpu")
    reference.build(policy)
    kept = {name: parameter.clone() for name, parameter in policy.state_dict().items()}
    # from this device nothing can come back
    policy.to("meta")
    with Conversions(1) as seen, reference.at_hand(policy):
        for _ in range(8):
            with reference.anchor(policy) as anchor:
                assert {parameter.device.type for parameter in anchor.parameters()} == {"meta"}
    assert seen.count == 4
    for name, parameter in anchor.state_dict().items():
        assert torch.equal(parameter, kept[name])


def test_a_tied_weight_of_an_offloaded_reference_is_moved_once() -> None:
    policy = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    policy[1].weight = policy[0].weight
    reference = FrozenReference(offload="cpu")
    reference.build(policy)
    policy.to("meta")
    with Conversions(1) as seen, reference.anchor(policy):
        pass
    assert seen.count == 1


class Counted(FrozenReference):
    """Counts how often it comes and how often it is asked."""

    def __init__(self) -> None:
        super().__init__(offload="cpu")
        self.came = self.asked = 0

    @contextmanager
    def at_hand(self, policy: nn.Module) -> Iterator[None]:
        self.came += not self._is_at_hand
        with super().at_hand(policy):
            yield

    def logprobs(self, *arguments: Any) -> Tensor:
        self.asked += 1
        return super().logprobs(*arguments)


def module(reference: FrozenReference, source: Any = None, **settings: Any) -> PolicyOptimization:
    algorithm = GroupRelative(sampler=GroupSampler(group_size=4), kl=KLPenalty(loss_coefficient=0.1), reference=reference)
    return PolicyOptimization(
        policy=source or TinyPolicy(hidden=16, layers=1),
        algorithm=algorithm,
        rewards={"digits": SmallDigits()},
        engine=TransformersEngine(max_new_tokens=8),
        prompts_per_rollout=4,
        **settings,
    )


def fitted(module: PolicyOptimization, **options: Any) -> PolicyOptimization:
    trainer = quiet_trainer(max_epochs=1, **options)
    trainer.fit(module, datamodule=PromptData(train=DigitSorting(examples=40), validation_size=0))
    return module


@pytest.mark.filterwarnings("ignore")
def test_a_reference_comes_once_for_all_micro_batches_of_a_pass() -> None:
    reference = Counted()
    found = fitted(module(reference, micro_batch_tokens=16)).algorithm.reference
    assert isinstance(found, Counted)
    assert found.asked > 4
    assert found.came == 1


@pytest.mark.filterwarnings("ignore")
def test_m1_an_optimizer_is_fused_by_the_device_of_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    made = module(FrozenReference())
    trainer = quiet_trainer(max_epochs=1)
    trainer.strategy.connect(made)
    made.trainer = trainer
    made.learner.attach(TinyPolicy(hidden=8, layers=1).build())
    monkeypatch.setattr(type(made.learner), "tried_schedule", lambda self: None)
    for device, fused in ((torch.device("cuda", 0), True), (torch.device("cpu"), None)):
        # as under DeepSpeed, which moves the parameters later
        monkeypatch.setattr(type(trainer.strategy), "root_device", device)
        assert made.configure_optimizers().param_groups[0]["fused"] is fused


@pytest.fixture
def _alone() -> Iterator[None]:
    before = dict(os.environ)
    yield
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    # Lightning leaves the address of the group there, which processes of other tests would take for theirs
    os.environ.clear()
    os.environ.update(before)


@pytest.mark.usefixtures("_alone")
@pytest.mark.filterwarnings("ignore")
def test_m4_fsdp2_gathers_bfloat16_under_bf16_mixed_and_steps_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    gathered: set[torch.dtype] = set()
    known: Callable[..., Any] = TransformersEngine._decode

    def seen(engine: Any, *arguments: Any) -> Any:
        gathered.update(parameter.dtype for parameter in engine._ready().model.parameters())
        return known(engine, *arguments)

    monkeypatch.setattr(TransformersEngine, "_decode", seen)
    found = fitted(module(FrozenReference()), strategy="fsdp2", precision="bf16-mixed")
    assert gathered == {HALF}
    assert {parameter.dtype for parameter in found.policy.parameters()} == {torch.float32}
    assert float(found.trainer.callback_metrics["grad_norm"]) > 0
