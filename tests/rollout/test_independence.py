"""A completion does not depend on its neighbours, on slices, on order, or on how many rows there are."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lightrl_workshop import rollouts_with

from lightrl import Policy, Prompt, Rollout, TinyPolicy, TransformersEngine
from lightrl.rollout.loop import RolloutLoop

EngineFor = Callable[..., RolloutLoop]
ReadsOf = Callable[[Policy, RolloutLoop], list[tuple[int, int]]]


def texts(rollout: Rollout) -> dict[tuple[str, int], tuple[list[int], str]]:
    """Tokens and finish reason of each row by prompt id and number of the sample."""
    count: dict[str, int] = {}
    rows = {}
    for i, prompt in enumerate(rollout.prompts):
        sample = count.get(prompt.id, 0)
        count[prompt.id] = sample + 1
        rows[prompt.id, sample] = (rollout.input_ids[i][rollout.attention_mask[i]].tolist(), rollout.finish_reason[i])
    return rows


@pytest.mark.parametrize("architecture", ["llama", "gpt2", "lfm2", "bloom"])
@pytest.mark.parametrize("max_rows", [1, 2, 3, 5, 7, 100])
def test_slices_change_nothing(
    policy_of: Callable[..., Policy], engine_for: EngineFor, uneven: list[Prompt], even: list[Prompt], architecture: str, max_rows: int
) -> None:
    policy, prompts = policy_of(architecture), [*uneven, *even]
    whole = engine_for(policy).rollout(prompts, 3)
    sliced = engine_for(policy, max_rows=max_rows).rollout(prompts, 3)
    assert torch.equal(whole.input_ids, sliced.input_ids)
    assert torch.equal(whole.response_mask, sliced.response_mask)
    assert whole.completions == sliced.completions
    assert whole.finish_reason == sliced.finish_reason
    torch.testing.assert_close(whole.rollout_logprobs, sliced.rollout_logprobs, atol=2e-5, rtol=0)


POLICY = TinyPolicy(hidden=32).build()


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_subset_in_any_order_says_the_same(data: st.DataObject) -> None:
    prompts = [Prompt(id=str(i), text=f"{'7' * (i % 5)}{i}=") for i in range(8)]
    subset = data.draw(st.lists(st.sampled_from(prompts), min_size=1, max_size=8, unique_by=lambda p: p.id))
    n = data.draw(st.integers(1, 3))
    rows = []
    for chosen, count in ((prompts, 3), (subset, n)):
        rows.append(texts(rollouts_with(POLICY, TransformersEngine(max_new_tokens=16, seed=11)).rollout(chosen, count)))
    everything, some = rows
    assert len(some) == len(subset) * n
    assert all(everything[key] == row for key, row in some.items())


def test_the_memory_bound_is_kept(policy: Policy, engine_for: EngineFor, reads_of: ReadsOf, uneven: list[Prompt]) -> None:
    for max_rows, n in ((4, 2), (2, 5)):
        engine = engine_for(policy, max_rows=max_rows)
        reads = reads_of(policy, engine)
        engine.rollout(uneven, n)
        assert max(rows for rows, _ in reads) == max_rows


def test_a_prompt_is_read_once_and_finished_rows_leave(
    policy: Policy, engine_for: EngineFor, reads_of: ReadsOf, even: list[Prompt]
) -> None:
    engine = engine_for(policy, max_new_tokens=60)
    shapes = reads_of(policy, engine)
    rollout = engine.rollout(even, 16)
    assert shapes[0] == (4, 4)
    assert {width for _, width in shapes[1:]} == {1}
    decoded = sum(rows for rows, _ in shapes[1:])
    needed = int((rollout.response_lengths - 1).sum())
    assert len(set(rollout.response_lengths.tolist())) > 5
    # each compaction lets at most half a step of the remaining rows be wasted
    assert needed <= decoded <= 1.5 * needed + 64


def test_samples_differ_between_rows_calls_seeds_and_repeated_prompts(policy: Policy, engine_for: EngineFor) -> None:
    prompt = Prompt(id="p", text="12+34=")
    engine = engine_for(policy)
    first, second = engine.rollout([prompt, prompt], 4), engine.rollout([prompt], 4)
    other = engine_for(policy, seed=1).rollout([prompt], 4)
    rows = [tuple(ids) for rollout in (first, second, other) for ids, _ in texts(rollout).values()]
    assert len(set(rows)) == len(rows) == 16
    assert first.group.tolist() == [0] * 4 + [1] * 4


def test_a_resumed_engine_goes_on_where_the_other_stopped(policy: Policy, engine_for: EngineFor, uneven: list[Prompt]) -> None:
    engine = engine_for(policy)
    engine.rollout(uneven, 2)
    engine.rollout([], 2)
    state = engine.state_dict()
    expected = engine.rollout(uneven, 2)
    resumed = engine_for(policy)
    resumed.load_state_dict(state)
    got = resumed.rollout(uneven, 2)
    assert torch.equal(got.input_ids, expected.input_ids)
    assert torch.equal(got.rollout_logprobs, expected.rollout_logprobs)
    assert resumed.state_dict()["calls"] == engine.state_dict()["calls"] == 3


def test_the_global_random_state_is_neither_read_nor_moved(policy: Policy, engine_for: EngineFor, even: list[Prompt]) -> None:
    torch.manual_seed(1)
    first = engine_for(policy).rollout(even, 2)
    torch.manual_seed(2)
    before = torch.get_rng_state()
    second = engine_for(policy).rollout(even, 2)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first.input_ids, second.input_ids)
