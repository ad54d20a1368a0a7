"""A decode step that a device can record gives what the lean step gives; the recording itself is stood for by a call."""

from __future__ import annotations

import copy
import gc
import logging
import sys
import weakref
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lightrl_workshop import rollouts_with
from torch import Tensor

from lightrl import LoraPolicy, Policy, Prompt, Rollout, TinyPolicy, TransformersEngine
from lightrl.rollout.decode import cache as keys_and_values
from lightrl.rollout.decode import step_choice
from lightrl.rollout.decode.graph_step import CudaGraphs, GraphStep
from lightrl.rollout.decode.incremental import IncrementalModel
from lightrl.rollout.decode.lean_step import LeanStep
from lightrl.rollout.decode.model_forward import DecodeStep
from lightrl.rollout.decode.step_choice import StepChoice, recorder_for
from lightrl.rollout.loop import RolloutLoop

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "training"))
from recorders import CallsAgain, Checks, DropsTheFunction, Refuses
from tagged_device import TaggedDevice

PolicyOf = Callable[..., Policy]
EngineFor = Callable[..., RolloutLoop]
Recording = Callable[[Any], Any]


@pytest.fixture(autouse=True)
def _small_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys_and_values, "ROOM", 4)


@pytest.fixture(autouse=True)
def _no_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


@pytest.fixture
def recording(monkeypatch: pytest.MonkeyPatch) -> Recording:
    """From now on every model lies on a device with this recorder."""

    def record(recorder: Any) -> Any:
        monkeypatch.setattr(step_choice, "recorder_for", lambda _: lambda: recorder)
        return recorder

    return record


def batch_of(policy: Policy, step: DecodeStep) -> IncrementalModel:
    policy.model.eval()
    return IncrementalModel(policy.model, policy.max_positions, lambda: step)


def prompts_of(lengths: list[int]) -> list[list[int]]:
    return [[(3 * row + token) % 20 + 2 for token in range(length)] for row, length in enumerate(lengths)]


def steps(batch: IncrementalModel, rows: int, count: int, seed: int = 0) -> list[Tensor]:
    """Logits of so many steps, with tokens from a seed."""
    source = torch.Generator().manual_seed(seed)
    return [batch.step(torch.randint(2, 22, (rows,), generator=source)) for _ in range(count)]


def life(policy: Policy, step: DecodeStep, lengths: list[int], joining: list[int], kept: list[int], further: int) -> list[Tensor]:
    """Logits and keys of a batch that reads prompts, loses rows, is joined by others, and goes on."""
    batch = batch_of(policy, step)
    seen = [batch.prefill(prompts_of(lengths), [2] * len(lengths))]
    seen += steps(batch, 2 * len(lengths), 3)
    batch.keep(torch.tensor(kept))
    seen += steps(batch, len(kept), 2, 1)
    other = batch_of(policy, step)
    seen.append(other.prefill(prompts_of(joining), [1] * len(joining)))
    batch.join(other)
    seen += steps(batch, len(kept) + len(joining), further, 2)
    return seen + batch.keys


def expect_close(ours: list[Tensor], theirs: list[Tensor], within: float) -> None:
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, atol=within, rtol=within)


def expect_same(ours: Rollout, theirs: Rollout) -> None:
    assert torch.equal(ours.input_ids, theirs.input_ids)
    assert ours.finish_reason == theirs.finish_reason
    torch.testing.assert_close(ours.rollout_logprobs, theirs.rollout_logprobs, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("architecture", ["llama", "llama-eager", "qwen2", "qwen3", "mistral"])
def test_rollouts_are_those_of_the_lean_step(
    policy_of: PolicyOf, engine_for: EngineFor, recording: Recording, even: list[Prompt], uneven: list[Prompt], architecture: str
) -> None:
    policy = policy_of(architecture, scale=3.0)
    both = (even, uneven)
    lean = [engine_for(policy, max_new_tokens=40).rollout(prompts, 3) for prompts in both]
    recorder = recording(CallsAgain())
    for prompts, theirs in zip(both, lean, strict=True):
        expect_same(engine_for(policy, max_new_tokens=40).rollout(prompts, 3), theirs)
    assert recorder.recordings > 2


def test_rows_that_take_the_places_of_others(policy: Policy, engine_for: EngineFor, recording: Recording, uneven: list[Prompt]) -> None:
    lean = engine_for(policy, max_new_tokens=40, max_rows=4).rollout(uneven, 4)
    recorder = recording(CallsAgain())
    expect_same(engine_for(policy, max_new_tokens=40, max_rows=4).rollout(uneven, 4), lean)
    assert recorder.recordings > 2


@cache
def tiny() -> Policy:
    policy = TinyPolicy(hidden=16, layers=1, heads=2).build()
    policy.model.double()
    return policy


@settings(max_examples=12, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=4),
    joining=st.lists(st.integers(1, 20), min_size=1, max_size=4),
    data=st.data(),
)
def test_at_all_lengths(lengths: list[int], joining: list[int], data: st.DataObject) -> None:
    kept = data.draw(st.lists(st.integers(0, 2 * len(lengths) - 1), min_size=1, unique=True))
    further = data.draw(st.integers(1, 20))
    ours, theirs = (
        life(tiny(), step, lengths, joining, kept, further) for step in (GraphStep(tiny().model, CallsAgain), LeanStep(tiny().model))
    )
    expect_close(ours, theirs, 1e-12)


@pytest.mark.parametrize("lengths", [[5], [5, 5, 5], [2, 9, 4]], ids=["one row", "one length", "padding"])
@pytest.mark.parametrize(("dtype", "within"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_logits_and_keys(policy_of: PolicyOf, lengths: list[int], dtype: torch.dtype, within: float) -> None:
    policy = policy_of("qwen3", scale=1.0)
    policy.model.to(dtype)
    arguments = (lengths, [3, 7], [len(lengths), 0], 20)
    expect_close(life(policy, GraphStep(policy.model, Checks), *arguments), life(policy, LeanStep(policy.model), *arguments), within)


def test_a_step_is_recorded_where_buffers_move_or_half_of_the_rows_are_left(policy: Policy) -> None:
    recorder = CallsAgain()
    batch = batch_of(policy, GraphStep(policy.model, lambda: recorder))
    # 10 positions that were read, and room for 5
    batch.prefill(prompts_of([10]), [8])
    steps(batch, 8, 5)
    assert recorder.recordings == 1
    steps(batch, 8, 1)
    assert recorder.recordings == 2, "a 16th position"
    batch.keep(torch.arange(5))
    steps(batch, 5, 1)
    assert recorder.recordings == 2, "more than half of the rows are left"
    batch.keep(torch.tensor([3, 1]))
    steps(batch, 2, 1)
    assert recorder.recordings == 3
    other = batch_of(policy, LeanStep(policy.model))
    other.prefill(prompts_of([3]), [1])
    batch.join(other)
    steps(batch, 3, 1)
    assert recorder.recordings == 4


@pytest.mark.parametrize("change", ["number", "place", "shape"])
def test_what_a_graph_would_not_follow_is_seen(change: str) -> None:
    seen = {"number": 1.0, "place": torch.ones(3), "shape": torch.ones(4)}
    replay = Checks()(lambda: (torch.zeros(1) + seen["number"] + seen["place"].sum() + seen["shape"].sum()) * 2)
    assert replay() == 16
    # the old tensor stays, so that its place is not given to the new one
    old = seen[change]
    seen[change] = 2.0 if change == "number" else torch.ones(3) if change == "place" else seen["shape"][:3]
    with pytest.raises(AssertionError):
        replay()
    seen[change] = old
    assert replay() == 16


def test_a_row_of_nan_leaves_none_to_others(policy: Policy) -> None:
    step = GraphStep(policy.model, CallsAgain)
    batch = batch_of(policy, step)
    batch.prefill(prompts_of([5, 10]), [2, 1])
    steps(batch, 3, 2)
    for layer in batch._cache.layers:
        layer.keys[2].fill_(torch.nan)
        layer.values[2].fill_(torch.nan)
    logits = steps(batch, 3, 1)[0]
    assert logits[:2].isfinite().all()
    assert logits[2].isnan().all()
    batch.keep(torch.tensor([0, 1]))
    assert all(logits.isfinite().all() for logits in steps(batch, 2, 2))
    other = batch_of(policy, step)
    other.prefill(prompts_of([2]), [1])
    batch.join(other)
    assert all(logits.isfinite().all() for logits in steps(batch, 3, 12))


def test_another_cache_with_the_same_buffers_is_recorded_anew(policy: Policy) -> None:
    batch, recorder = batch_of(policy, LeanStep(policy.model)), CallsAgain()
    batch.prefill(prompts_of([10]), [2])
    first, tokens = batch._cache, torch.tensor([3, 4])
    # begun again 4 tokens earlier, as if the allocator had given the same places to another batch
    second = copy.copy(first)
    second.layers = [copy.copy(layer) for layer in first.layers]
    for layer in second.layers:
        layer.keys, layer.values = layer.keys[:, :, :6], layer.values[:, :, :6]
    alone = copy.deepcopy(second)
    step = GraphStep(policy.model, lambda: recorder)
    step.logits(tokens, first, None, None)
    expect_close([step.logits(tokens, second, None, None)], [LeanStep(policy.model).logits(tokens, alone, None, None)], 1e-6)
    assert recorder.recordings == 2


def test_weights_that_change_in_place_are_read(policy: Policy) -> None:
    recorder = Checks()
    step = GraphStep(policy.model, lambda: recorder)
    batch, lean = batch_of(policy, step), batch_of(policy, LeanStep(policy.model))
    for each in (batch, lean):
        each.prefill(prompts_of([3, 5]), [1, 1])
        steps(each, 2, 1)
    weight = policy.model.model.layers[1].mlp.down_proj.weight
    weight.mul_(1.5)
    expect_close(steps(batch, 2, 1), steps(lean, 2, 1), 1e-6)
    assert recorder.recordings == 1


def test_weights_that_change_between_rollouts(policy_of: PolicyOf, engine_for: EngineFor, recording: Recording, even: list[Prompt]) -> None:
    def both(policy: Policy) -> list[Rollout]:
        rollouts = engine_for(policy)
        first = rollouts.rollout(even, 2)
        for parameter in policy.model.parameters():
            parameter.mul_(0.7)
        return [first, rollouts.rollout(even, 2)]

    lean = both(policy_of("llama"))
    recording(CallsAgain())
    for ours, theirs in zip(both(policy_of("llama")), lean, strict=True):
        expect_same(ours, theirs)
    assert not torch.equal(lean[0].input_ids, lean[1].input_ids)


def test_adapters_take_part(recording: Recording, uneven: list[Prompt]) -> None:
    policy = LoraPolicy(TinyPolicy(hidden=32), r=4).build()
    for name, parameter in policy.named_parameters():
        if "lora" in name:
            parameter.normal_(std=0.3)

    def both() -> list[Rollout]:
        adapted = rollouts_with(policy, TransformersEngine(16)).rollout(uneven, 2)
        with policy.base():
            return [adapted, rollouts_with(policy, TransformersEngine(16)).rollout(uneven, 2)]

    lean = both()
    checks = recording(Checks())
    for ours, theirs in zip(both(), lean, strict=True):
        expect_same(ours, theirs)
    assert checks.replays > 0
    assert not torch.equal(lean[0].input_ids, lean[1].input_ids)


def test_under_autocast_no_converted_weight_is_kept(policy: Policy) -> None:
    recorder = Checks()
    batch, lean = (batch_of(policy, step) for step in (GraphStep(policy.model, lambda: recorder), LeanStep(policy.model)))
    for each in (batch, lean):
        with torch.autocast("cpu", torch.bfloat16):
            each.prefill(prompts_of([4, 6]), [1, 1])
            each.seen = steps(each, 2, 2)
        with torch.autocast("cpu", torch.bfloat16):
            each.seen += steps(each, 2, 2)
    expect_close(batch.seen, lean.seen, 0.05)
    assert recorder.recordings == 1


def test_the_host_waits_for_nothing(policy: Policy) -> None:
    waits = TaggedDevice("steps")
    waits.put(*policy.model.parameters(), *policy.model.buffers())
    step = GraphStep(policy.model, lambda: Checks())
    source = torch.Generator().manual_seed(0)
    with waits.watching():
        batch = batch_of(policy, step)
        batch.prefill(prompts_of([3, 6]), [2, 2])
        before = waits.counts["steps"]
        for number in range(20):
            tokens = torch.randint(2, 22, (4,), generator=source)
            waits.put(tokens)
            logits = batch.step(tokens)
            assert waits.has(logits), number
    assert waits.counts["steps"] == before, waits.causes


def test_logits_stay_what_they_were(policy: Policy) -> None:
    batch = batch_of(policy, GraphStep(policy.model, CallsAgain))
    batch.prefill(prompts_of([4]), [2])
    (first,) = steps(batch, 2, 1)
    was = first.clone()
    steps(batch, 2, 3)
    assert torch.equal(first, was)


def test_a_batch_that_is_let_go_leaves_no_memory(policy: Policy) -> None:
    recorder = DropsTheFunction()
    policy.model.eval()
    batch = IncrementalModel(policy.model, policy.max_positions, lambda: GraphStep(policy.model, lambda: recorder))
    batch.prefill(prompts_of([4]), [2])
    steps(batch, 2, 2)
    buffers = [weakref.ref(buffer) for layer in batch._cache.layers for buffer in layer.buffers]
    results = [weakref.ref(batch._step._recorded.replay)]
    assert len(buffers) == 4
    assert len(results) == 1
    gc.disable()
    try:
        batch.release()
        assert [left() for left in buffers + results] == [None] * 5
    finally:
        gc.enable()


REASON = "without CUDA graphs, and is slower: RuntimeError: operation not permitted when stream is capturing$"


def test_where_steps_cannot_be_recorded_the_lean_step_is_taken_and_the_reason_said(
    policy: Policy, engine_for: EngineFor, recording: Recording, even: list[Prompt]
) -> None:
    lean = engine_for(policy).rollout(even, 2)
    recording(Refuses())
    choice = StepChoice(policy.model.eval(), policy.max_positions)
    with pytest.warns(UserWarning, match=REASON):
        assert [type(choice.step()) for _ in range(3)] == [LeanStep] * 3
    with pytest.warns(UserWarning, match=REASON):
        expect_same(engine_for(policy).rollout(even, 2), lean)


def test_a_step_that_cannot_be_recorded_later_goes_on_without(policy: Policy) -> None:
    with pytest.warns(UserWarning, match=REASON):
        ours = life(policy, GraphStep(policy.model, lambda: Refuses(after=2)), [3, 5], [4], [3, 0, 1], 20)
    expect_close(ours, life(policy, LeanStep(policy.model), [3, 5], [4], [3, 0, 1], 20), 1e-6)


def test_a_recording_that_gives_something_else_is_not_taken(policy: Policy, recording: Recording) -> None:
    recording(DropsTheFunction())
    with pytest.warns(UserWarning, match="they give other numbers than the model"):
        assert type(StepChoice(policy.model.eval(), policy.max_positions).step()) is LeanStep


def test_models_off_the_lean_form_are_not_recorded(policy_of: PolicyOf, recording: Recording) -> None:
    recorder = recording(CallsAgain())
    policy = policy_of("gpt2")
    StepChoice(policy.model.eval(), policy.max_positions).step()
    assert recorder.recordings == 0


def test_a_cpu_records_nothing(policy: Policy) -> None:
    assert recorder_for(policy.model) is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_gpu_runs_graphs(policy_of: PolicyOf, dtype: torch.dtype, caplog: pytest.LogCaptureFixture) -> None:
    policy = policy_of("qwen3", scale=1.0)
    policy.model.to("cuda", dtype)
    recorder = recorder_for(policy.model)
    assert recorder.func is CudaGraphs
    with caplog.at_level(logging.INFO):
        assert type(StepChoice(policy.model.eval(), policy.max_positions).step()) is GraphStep, caplog.text
    within = 1e-4 if dtype == torch.float32 else 0.1

    def ran(step: DecodeStep) -> list[Tensor]:
        batch = batch_of(policy, step)
        seen = [batch.prefill(prompts_of([2, 9, 4]), [2, 2, 2])]
        seen += [batch.step(torch.full((6,), 5 + number, device="cuda")) for number in range(20)]
        batch.keep(torch.tensor([4, 0]))
        return seen + [batch.step(torch.full((2,), 5 + number, device="cuda")) for number in range(5)]

    expect_close(ran(GraphStep(policy.model, recorder)), ran(LeanStep(policy.model)), within)
